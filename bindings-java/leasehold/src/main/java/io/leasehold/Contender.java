package io.leasehold;

import org.jspecify.annotations.Nullable;

/**
 * Somebody in the queue of a lock.
 *
 * @param key its key in etcd, namespace included
 * @param token its fencing token: the create revision of the key
 * @param lease its lease, in lower-case hexadecimal; null is a key that never ends by itself, because somebody wrote it by hand
 * @param identity who it says it is
 * @param host the host it runs on
 * @param pid its process there
 * @param since since when it waits or holds, in UTC (RFC 3339)
 * @param version the version of leasehold that it uses
 * @param foreign whether it is no client of leasehold but, say, {@code etcdctl lock} or jetcd
 * @param kind what it claims: {@code mutex}, {@code shared} or {@code semaphore}
 * @param permits how many permits, of a semaphore; 0 otherwise
 * @param holder whether it holds; otherwise it waits for somebody ahead of it
 */
public record Contender(
        String key,
        long token,
        @Nullable String lease,
        @Nullable String identity,
        @Nullable String host,
        @Nullable Long pid,
        @Nullable String since,
        @Nullable String version,
        boolean foreign,
        String kind,
        int permits,
        boolean holder) {}

package io.leasehold;

import java.nio.charset.StandardCharsets;

/**
 * Who leads an election.
 *
 * @param key its key in etcd, namespace included
 * @param token its fencing token: greater than that of every leader before
 * @param value what it proclaims
 * @param revision the revision of etcd at which it proclaimed that: greater than that of every proclamation before
 */
public record Leader(String key, long token, byte[] value, long revision) {
    /**
     * What it proclaims, as text.
     *
     * @return the value, read as UTF-8
     */
    public String text() {
        return new String(value, StandardCharsets.UTF_8);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Leader leader && key.equals(leader.key) && token == leader.token && revision == leader.revision;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(revision);
    }

    @Override
    public String toString() {
        return "Leader[" + key + ", token " + token + "]";
    }
}

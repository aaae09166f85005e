package io.leasehold;

import java.util.List;
import java.util.Optional;

/**
 * What a {@link GuardedTxn} did.
 *
 * @param revision the revision of etcd after the transaction; if it wrote, the revision of its writes
 * @param deleted how many keys were deleted
 * @param values the value of each key that was read, in the order of the reads; empty where there is none
 */
public record Committed(long revision, long deleted, List<Optional<byte[]>> values) {}

package io.leasehold;

import org.jspecify.annotations.Nullable;

/** Why a guard no longer proves that it holds its lock. */
public enum LostReason {
    /** The lease ran out: no renewal was acknowledged in time. */
    EXPIRED(1),
    /** Somebody deleted the guard's key while its lease lived. */
    KEY_DELETED(2),
    /** etcd ended the lease before its time. */
    LEASE_REVOKED(3),
    /** The client was closed while the lock was held. */
    CLIENT_CLOSED(4),
    /** The guard belongs to the parent process of a fork. */
    FORKED(5),
    /** etcd went back in time: it was restored from a backup, or lost its data. */
    STORE_RESTORED(6);

    private static final LostReason[] ALL = values();

    private final int number;

    LostReason(int number) {
        this.number = number;
    }

    /**
     * The number that every language knows.
     *
     * @return the number
     */
    public int number() {
        return number;
    }

    static @Nullable LostReason of(int number) {
        for (LostReason reason : ALL) {
            if (reason.number == number) {
                return reason;
            }
        }
        return null;
    }
}

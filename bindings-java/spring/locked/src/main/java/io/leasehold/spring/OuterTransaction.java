package io.leasehold.spring;

/**
 * What {@link Locked} does where a transaction has begun before its lock: that would commit after the lock is released, and the
 * next owner would not see what was written.
 */
public enum OuterTransaction {
    /**
     * Keeps the lock until that transaction has ended, and does not let it commit if the lock is lost by then. (What the
     * transaction has read before the lock was taken may be old all the same, where it sees a snapshot.)
     */
    HOLD,
    /** Releases the lock at the end of the method, and logs a warning. */
    WARN,
    /** Refuses to run the method, with {@link IllegalStateException}. */
    REFUSE
}

package io.leasehold;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * A name that many may read or one may write, in the order in which they came: a writer that waits is not overtaken by readers.
 *
 * <p>Both locks are re-entrant for each thread. A thread that writes may read, too: its reads are served by the write's hold, which
 * lasts until both are unlocked, as an exclusive one. A thread that reads and wants to write would wait for itself: {@link
 * LeaseholdLock#lock} throws {@link WouldDeadlockException}, {@link LeaseholdLock#tryLock()} is false.
 *
 * <p>The write lock is the same lock as {@link LeaseholdClient#lock} of the name, and whoever else queues there (Go's {@code
 * concurrency.Mutex}, {@code etcdctl lock}) is a writer.
 */
public final class LeaseholdReadWriteLock implements ReadWriteLock {
    private final LeaseholdLock read;
    private final LeaseholdLock write;

    LeaseholdReadWriteLock(LeaseholdLock read, LeaseholdLock write) {
        this.read = read;
        this.write = write;
    }

    @Override
    public LeaseholdLock readLock() {
        return read;
    }

    @Override
    public LeaseholdLock writeLock() {
        return write;
    }

    @Override
    public String toString() {
        return "LeaseholdReadWriteLock[" + write.name() + "]";
    }
}

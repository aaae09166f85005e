package io.leasehold.spring.integration;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * The locks of Spring Integration (aggregators, file filters, leader election) on etcd.
 *
 * <p>A lock object costs nothing and is not kept: two of the same key are the same lock, re-entrant for each thread. Holds
 * are renewed until they are released, so nothing has to be renewed by hand and no lock expires under a slow message; after a
 * crash it is free after the client's TTL. The forms with a time to live are not renewed and free themselves: after at least 2 s,
 * in whole seconds, rounded up. {@link #renewLock(Object)} makes such a hold last longer.
 */
public final class LeaseholdLockRegistry implements LockRegistry<DistributedLock>, RenewableLockRegistry<DistributedLock> {
    /** What the other registries of Spring Integration have. */
    private static final Duration RENEWAL = Duration.ofSeconds(60);

    private static final Duration SHORTEST = Duration.ofSeconds(2);

    private final LeaseholdClient client;
    private final String prefix;

    /**
     * A registry whose locks are called as their keys.
     *
     * @param client the client; closing it releases the locks
     * @param prefix put before each key, such as {@code /spring-integration/}
     */
    public LeaseholdLockRegistry(LeaseholdClient client, String prefix) {
        this.client = Objects.requireNonNull(client, "client");
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    /**
     * The lock of a key.
     *
     * @param key its text is the name of the lock, after the prefix
     * @return the lock
     */
    @Override
    public DistributedLock obtain(Object key) {
        return new RegistryLock(client.lock(prefix + Objects.requireNonNull(key, "key")));
    }

    /**
     * Makes the hold of this thread last at least 60 s from now. One without a time to live is renewed by itself; for it this is a
     * proof that it is held.
     *
     * @param key the key of the lock
     * @throws IllegalStateException if this thread does not hold it, or has lost it
     */
    @Override
    public void renewLock(Object key) {
        renewLock(key, RENEWAL);
    }

    /**
     * Makes the hold of this thread last at least this long from now.
     *
     * @param key the key of the lock
     * @param timeToLive how long, at least 2 s
     * @throws IllegalStateException if this thread does not hold it, or has lost it
     */
    @Override
    public void renewLock(Object key, Duration timeToLive) {
        Guard guard = client.lock(prefix + Objects.requireNonNull(key, "key"))
                .heldByCurrentThread()
                .orElseThrow(() -> new IllegalStateException("this thread does not hold the lock of " + key));
        try {
            guard.extend(atLeastTwoSeconds(timeToLive));
        } catch (LockLostException lost) {
            throw new IllegalStateException("the lock of " + key + " was lost", lost);
        }
    }

    private static Duration atLeastTwoSeconds(Duration time) {
        return time.compareTo(SHORTEST) < 0 ? SHORTEST : time;
    }

    /** A lock that can also be held for a given time. */
    private record RegistryLock(LeaseholdLock named) implements DistributedLock {
        /** As good as no limit, for the core's clock as well as for Java's. */
        private static final Duration AGES = Duration.ofDays(30);

        @Override
        public void lock() {
            named.lock();
        }

        @Override
        public void lock(Duration timeToLive) {
            boolean wasInterrupted = false;
            boolean isHeld = false;
            try {
                while (!isHeld) {
                    try {
                        isHeld = tryLock(AGES, timeToLive);
                    } catch (InterruptedException interrupted) {
                        // As lock() of java.util.concurrent: the interrupt is kept for later.
                        wasInterrupted = true;
                    }
                }
            } finally {
                if (wasInterrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            named.lockInterruptibly();
        }

        @Override
        public boolean tryLock() {
            return named.tryLock();
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return named.tryLock(time, unit);
        }

        @Override
        public boolean tryLock(Duration waitTime, Duration timeToLive) throws InterruptedException {
            return named.tryLock(
                    waitTime.toMillis(), atLeastTwoSeconds(timeToLive).toMillis(), TimeUnit.MILLISECONDS);
        }

        @Override
        public void unlock() {
            named.unlock();
        }

        @Override
        public Condition newCondition() {
            return named.newCondition();
        }

        @Override
        public String toString() {
            return named.toString();
        }
    }
}

package io.leasehold.spring.integration;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * The locks of Spring Integration (aggregators, file filters, leader election) on etcd.
 *
 * <p>A lock object costs nothing and is not kept: two of the same key are the same lock, re-entrant for each thread. Holds
 * are renewed until they are released, so nothing has to be renewed by hand and no lock expires under a slow message; after a
 * crash it is free after the client's TTL. The forms with a time to live are not renewed and free themselves.
 */
public final class LeaseholdLockRegistry implements LockRegistry<DistributedLock> {
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
            return named.tryLock(waitTime.toMillis(), timeToLive.toMillis(), TimeUnit.MILLISECONDS);
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

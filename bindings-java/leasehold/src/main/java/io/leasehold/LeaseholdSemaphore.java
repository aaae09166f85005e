package io.leasehold;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * A name with a limited number of permits, with the words of {@link Semaphore}: everybody who uses it must say the same limit, or is
 * told so ({@link ErrorCode#LIMIT_MISMATCH}). Permits are given in the order in which they were asked for: a large request is not
 * overtaken by small ones.
 *
 * <p>Permits belong to the client, not to a thread: any thread may release them. Those that are acquired together are released
 * together. Permits that nobody acquired through this client cannot be released, and none can be added.
 *
 * <p>{@link #permits} is for those who want a {@link Guard}: with a fencing token, told of a loss, or without a thread that waits.
 */
public final class LeaseholdSemaphore {
    private final LeaseholdClient client;
    private final String name;
    private final int limit;

    LeaseholdSemaphore(LeaseholdClient client, String name, int limit) {
        this.client = client;
        this.name = name;
        this.limit = limit;
    }

    /**
     * The name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * How many permits there are.
     *
     * @return the limit
     */
    public int limit() {
        return limit;
    }

    /**
     * Some permits as a lock: its guards hold so many of them. As a {@link java.util.concurrent.locks.Lock} it belongs to a thread.
     *
     * @param permits 1 to the limit; a bad number is reported by the lock's operations
     * @return the lock
     */
    public LeaseholdLock permits(int permits) {
        return new LeaseholdLock(Acquire.of(client, Claim.permits(name, permits, limit)));
    }

    /**
     * Waits for a permit.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    public void acquire() throws InterruptedException {
        acquire(1);
    }

    /**
     * Waits for several permits, and takes all of them at once.
     *
     * @param permits how many
     * @throws InterruptedException if the thread is interrupted
     */
    public void acquire(int permits) throws InterruptedException {
        keep(permits, permits(permits).acquire());
    }

    /** Waits for a permit, interrupted or not. */
    public void acquireUninterruptibly() {
        acquireUninterruptibly(1);
    }

    /**
     * Waits for several permits, interrupted or not.
     *
     * @param permits how many
     */
    public void acquireUninterruptibly(int permits) {
        keep(permits, permits(permits).acquireUninterruptibly());
    }

    /**
     * Takes a permit if there is one and nobody waits for any. Asks etcd.
     *
     * @return whether it was taken
     */
    public boolean tryAcquire() {
        return tryAcquire(1);
    }

    /**
     * Takes several permits if there are so many and nobody waits for any. Asks etcd.
     *
     * @param permits how many
     * @return whether they were taken
     */
    public boolean tryAcquire(int permits) {
        return permits(permits).tryAcquireUninterruptibly()
                .map(guard -> keep(permits, guard))
                .isPresent();
    }

    /**
     * Waits for a permit for at most {@code time}.
     *
     * @param time how long to wait; zero or less is a try
     * @param unit its unit
     * @return whether it was taken
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean tryAcquire(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(1, time, unit);
    }

    /**
     * Waits for several permits for at most {@code time}.
     *
     * @param permits how many
     * @param time how long to wait; zero or less is a try
     * @param unit its unit
     * @return whether they were taken
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean tryAcquire(int permits, long time, TimeUnit unit) throws InterruptedException {
        return permits(permits).tryAcquire(Duration.ofNanos(Math.max(0, unit.toNanos(time))))
                .map(guard -> keep(permits, guard))
                .isPresent();
    }

    /**
     * Releases a permit.
     *
     * @throws IllegalMonitorStateException if this client has acquired none, or only several together
     * @throws LockLostException if it was lost: somebody else may have had it meanwhile
     */
    public void release() {
        release(1);
    }

    /**
     * Releases several permits: those of one acquire, or of several.
     *
     * @param permits how many
     * @throws IllegalMonitorStateException if this client has not acquired so many, or only more of them together
     * @throws LockLostException if any was lost: somebody else may have had it meanwhile. All are released.
     */
    public void release(int permits) {
        if (permits < 0) {
            throw new InvalidArgumentException("the number of permits must not be negative, as " + permits + " is");
        }
        Guards.closeAll(client.heldPermits().take(name, permits));
    }

    /**
     * How many permits nobody holds. Asks etcd; it can be different the moment after. Somebody may wait for more than that.
     *
     * @return the number
     */
    public int availablePermits() {
        long held = permits(1).queue().stream()
                .filter(Contender::holder)
                .mapToLong(contender -> contender.permits() == 0 ? limit : contender.permits())
                .sum();
        return (int) Math.max(0, limit - held);
    }

    /**
     * How many wait, in whatever client. Asks etcd.
     *
     * @return the number
     */
    public int getQueueLength() {
        return (int) permits(1).queue().stream().filter(contender -> !contender.holder()).count();
    }

    /**
     * Whether anybody waits. Asks etcd.
     *
     * @return whether anybody does
     */
    public boolean hasQueuedThreads() {
        return getQueueLength() > 0;
    }

    @Override
    public String toString() {
        return "LeaseholdSemaphore[" + name + ", limit " + limit + "]";
    }

    private Guard keep(int permits, Guard guard) {
        client.heldPermits().add(name, permits, guard);
        return guard;
    }
}

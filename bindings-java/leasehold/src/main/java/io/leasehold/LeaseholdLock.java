package io.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A name that can be locked. Owners take turns in the order in which their keys were created in etcd, across processes,
 * languages and hosts, and together with {@code etcdctl lock}, jetcd's Lock client and the Go package {@code concurrency}.
 *
 * <p>It can be used in two ways:
 *
 * <ul>
 *   <li>As a {@link Lock} whose owner is a thread, virtual ones included. It is re-entrant for each client, name and thread,
 *       however many lock objects there are.
 *   <li>With {@link #acquire acquire}, {@link #tryAcquire() tryAcquire} and {@link #acquireAsync() acquireAsync}, which give a
 *       {@link Guard}. Whoever has the guard is the owner; any thread may release it. Guards are not re-entrant.
 * </ul>
 *
 * <p>A lock that was lost (its lease ran out, somebody deleted its key) stays lost: it is never acquired again behind the back of
 * its owner. {@link #isHeldByCurrentThread} tells, and so does {@link #unlock} at the latest.
 *
 * <p>All of these methods fail with {@link InvalidArgumentException} for a bad name or TTL, with {@link UnavailableException},
 * {@link DeadlineExceededException}, {@link UnauthenticatedException}, {@link PermissionDeniedException} or another {@link
 * LeaseholdException} if the queue could not be joined within the request timeout, and with {@link ClientClosedException} if the
 * client is closed.
 */
public final class LeaseholdLock implements Lock {
    private final LeaseholdClient client;
    private final String name;
    private final @Nullable Duration ttl;
    private final boolean renew;
    private final boolean requeue;

    LeaseholdLock(LeaseholdClient client, String name, @Nullable Duration ttl, boolean renew, boolean requeue) {
        this.client = client;
        this.name = name;
        this.ttl = ttl;
        this.renew = renew;
        this.requeue = requeue;
    }

    /**
     * The name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    // --- how to lock ---

    /**
     * The same lock, held with this TTL instead of the client's: how long it stays taken after its owner crashed. Each TTL has a
     * lease of its own.
     *
     * @param ttl at least 2 s, at most 30 days, rounded up to whole seconds; etcd may choose a longer one
     * @return a lock with this option
     */
    public LeaseholdLock withTtl(Duration ttl) {
        return new LeaseholdLock(client, name, Objects.requireNonNull(ttl, "ttl"), renew, requeue);
    }

    /**
     * The same lock, with or without renewal of its holds. Without, a hold ends at its TTL: a lock that frees itself. It is
     * renewed while it waits in any case.
     *
     * @param renew whether a hold is renewed until it is released; true by default
     * @return a lock with this option
     */
    public LeaseholdLock withRenew(boolean renew) {
        return new LeaseholdLock(client, name, ttl, renew, requeue);
    }

    /**
     * The same lock, with or without a second chance: whether an acquire queues again, at the end, if its session is lost while
     * it waits. Without, it fails with {@link LockLostException}.
     *
     * @param requeue whether to queue again; true by default
     * @return a lock with this option
     */
    public LeaseholdLock withRequeue(boolean requeue) {
        return new LeaseholdLock(client, name, ttl, renew, requeue);
    }

    // --- guards ---

    /**
     * Waits until the lock is ours, for as long as it takes. If the thread is interrupted, its place in the queue is given up;
     * if the lock was won at that moment, it is returned and the thread stays interrupted.
     *
     * @return the guard
     * @throws InterruptedException if the thread is interrupted
     * @throws WouldDeadlockException if this thread holds the lock through {@link #lock} and would wait for itself
     * @throws LockLostException as {@link #withRequeue} says
     */
    public Guard acquire() throws InterruptedException {
        refuseDeadlock();
        return guard(System.nanoTime(), waitInterruptibly(Spans.NONE, ttl, renew));
    }

    /**
     * Waits for the lock for at most {@code limit}; otherwise like {@link #acquire()}.
     *
     * @param limit not negative; zero is a try
     * @return the guard
     * @throws NotAcquiredException when the limit has passed; up to a second later if etcd does not confirm that the place in the
     *     queue is given up
     * @throws InterruptedException if the thread is interrupted
     * @throws WouldDeadlockException if this thread holds the lock through {@link #lock} and would wait for itself
     * @throws LockLostException as {@link #withRequeue} says
     */
    public Guard acquire(Duration limit) throws InterruptedException {
        refuseDeadlock();
        return guard(System.nanoTime(), waitInterruptibly(Spans.wait(limit), ttl, renew));
    }

    /**
     * Takes the lock if nobody holds it or waits for it; leaves nothing in the queue otherwise.
     *
     * @return the guard, or empty
     * @throws InterruptedException if the thread is interrupted while etcd is asked
     */
    public Optional<Guard> tryAcquire() throws InterruptedException {
        return guardIfAny(System.nanoTime(), waitInterruptibly(0, ttl, renew));
    }

    /**
     * Waits for the lock for at most {@code limit}; like {@link #acquire(Duration)}, but not getting it is no error.
     *
     * @param limit not negative; zero is a try
     * @return the guard, or empty
     * @throws InterruptedException if the thread is interrupted
     * @throws WouldDeadlockException if this thread holds the lock through {@link #lock} and would wait for itself
     * @throws LockLostException as {@link #withRequeue} says
     */
    public Optional<Guard> tryAcquire(Duration limit) throws InterruptedException {
        long wait = Spans.wait(limit);
        if (wait != 0) {
            refuseDeadlock();
        }
        return guardIfAny(System.nanoTime(), waitInterruptibly(wait, ttl, renew));
    }

    /**
     * Acquires the lock without waiting here. Cancelling the future, or ending it in another way such as a timeout, gives up the
     * place in the queue; a guard that was won at the same moment is released.
     *
     * @return the guard to come; fails as {@link #acquire()} does
     */
    public CompletableFuture<Guard> acquireAsync() {
        return startAsync(() -> Spans.NONE);
    }

    /**
     * {@link #acquireAsync()} with a limit.
     *
     * @param limit how long to wait, not negative; zero is a try
     * @return the guard to come; fails as {@link #acquire(Duration)} does
     */
    public CompletableFuture<Guard> acquireAsync(Duration limit) {
        return startAsync(() -> Spans.wait(limit));
    }

    /**
     * {@link #tryAcquire()} without waiting here.
     *
     * @return the guard, or empty, to come
     */
    public CompletableFuture<Optional<Guard>> tryAcquireAsync() {
        return tryAcquireAsync(Duration.ZERO);
    }

    /**
     * {@link #tryAcquire(Duration)} without waiting here.
     *
     * @param limit how long to wait, not negative; zero is a try
     * @return the guard, or empty, to come
     */
    public CompletableFuture<Optional<Guard>> tryAcquireAsync(Duration limit) {
        CompletableFuture<Guard> acquired = acquireAsync(limit);
        CompletableFuture<Optional<Guard>> tried = acquired.handle((guard, error) -> {
            if (error instanceof NotAcquiredException) {
                return Optional.empty();
            }
            if (error != null) {
                throw (RuntimeException) error;
            }
            return Optional.of(guard);
        });
        // Whoever ends this one ends the acquire.
        tried.whenComplete((guard, error) -> acquired.cancel(false));
        return tried;
    }

    // --- java.util.concurrent.locks.Lock ---

    /**
     * Waits until this thread holds the lock, for as long as it takes, interrupted or not. Returns with the lock or throws.
     *
     * @throws LockLostException if this thread held the lock and it was lost; or as {@link #withRequeue} says
     */
    @Override
    public void lock() {
        if (reenter()) {
            return;
        }
        long begun = System.nanoTime();
        hold(guard(begun, wait(Spans.NONE, ttl, renew).await()));
    }

    /**
     * Like {@link #lock}, but gives up its place in the queue when the thread is interrupted.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (!reenter()) {
            hold(guard(System.nanoTime(), waitInterruptibly(Spans.NONE, ttl, renew)));
        }
    }

    /**
     * Takes the lock if nobody holds it or waits for it, or if this thread holds it. Asks etcd, so it takes up to the request
     * timeout.
     *
     * @return whether this thread holds the lock now
     */
    @Override
    public boolean tryLock() {
        if (reenter()) {
            return true;
        }
        long begun = System.nanoTime();
        return hold(guardIfAny(begun, wait(0, ttl, renew).await()));
    }

    /**
     * Waits for the lock for at most {@code time}.
     *
     * @param time how long to wait; zero or less is a try
     * @param unit its unit
     * @return whether this thread holds the lock now
     * @throws InterruptedException if the thread is interrupted
     */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryLock(span(time, unit), ttl, renew);
    }

    /**
     * Waits for the lock for at most {@code wait}, and holds it for at most {@code lease}: it is not renewed and frees itself.
     * If this thread holds the lock already, its hold stays as it is and is counted once more.
     *
     * @param wait how long to wait; zero or less is a try
     * @param lease how long to hold, at least 2 s, rounded up to whole seconds; -1 is a hold that is renewed until it is released
     * @param unit the unit of both
     * @return whether this thread holds the lock now
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean tryLock(long wait, long lease, TimeUnit unit) throws InterruptedException {
        return lease == -1
                ? tryLock(span(wait, unit), ttl, renew)
                : tryLock(span(wait, unit), Duration.of(lease, unit.toChronoUnit()), false);
    }

    /**
     * Releases what one {@code lock} of this thread has taken; the last one releases the lock. If etcd cannot be reached, the
     * lock is released as far as this process is concerned; its key is deleted in the background and, at the latest, ends with
     * its lease.
     *
     * @throws IllegalMonitorStateException if this thread does not hold the lock
     * @throws LockLostException if the lock was lost: what it protected may have been done by somebody else meanwhile. It is
     *     unlocked all the same.
     */
    @Override
    public void unlock() {
        ThreadHold hold = threadHold();
        if (hold == null) {
            throw new IllegalMonitorStateException("the lock \"" + name + "\" is not held by the thread "
                    + Thread.currentThread().getName() + "; a guard is released with Guard.close()");
        }
        hold.count--;
        if (hold.count == 0) {
            client.threadHolds().remove(key());
            hold.guard.close();
        }
    }

    /**
     * There are no conditions of distributed locks.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions; watch a key of etcd instead");
    }

    /**
     * Whether this thread holds the lock through {@link #lock}, and it was not lost. Asks nobody.
     *
     * @return whether it is certainly held
     */
    public boolean isHeldByCurrentThread() {
        ThreadHold hold = threadHold();
        return hold != null && hold.guard.held();
    }

    /**
     * How often this thread has to unlock. A hold that was lost counts until then.
     *
     * @return the number of holds through {@link #lock}
     */
    public int getHoldCount() {
        ThreadHold hold = threadHold();
        return hold == null ? 0 : hold.count;
    }

    /**
     * The guard of what this thread holds through {@link #lock}: for its fencing token, say.
     *
     * @return the guard, or empty if this thread holds nothing. Closing it would release the lock under the thread.
     */
    public Optional<Guard> heldByCurrentThread() {
        ThreadHold hold = threadHold();
        return hold == null ? Optional.empty() : Optional.of(hold.guard);
    }

    // --- for operators ---

    /**
     * Whether anybody holds the lock. Asks etcd; it can be different the moment after.
     *
     * @return whether anybody does
     */
    public boolean isLocked() {
        return !queue().isEmpty();
    }

    /**
     * Everybody in the queue, the holder first, foreign clients included. Asks etcd.
     *
     * @return the contenders
     */
    public List<Contender> queue() {
        return client.await(this::startQueue).contenders();
    }

    /**
     * {@link #queue} without waiting here.
     *
     * @return the contenders to come
     */
    public CompletableFuture<List<Contender>> queueAsync() {
        return client.async(this::startQueue, Completion::contenders);
    }

    /**
     * Takes the lock, or the place in the queue, away from the contender with this token, whoever it is. Its guard is lost with
     * {@link LostReason#KEY_DELETED} as soon as it notices. The owner may still be at work: only fencing tokens keep its late
     * writes out.
     *
     * @param token the token of the contender, as {@link #queue} tells it
     * @throws NotHeldException if no contender has this token
     */
    public void forceRelease(long token) {
        client.await((queue, tag) -> Native.clientForceRelease(client.handle(), name, token, queue, tag));
    }

    /**
     * {@link #forceRelease} without waiting here.
     *
     * @param token the token of the contender
     * @return done when it is removed
     */
    public CompletableFuture<@Nullable Void> forceReleaseAsync(long token) {
        return client.async(
                (queue, tag) -> Native.clientForceRelease(client.handle(), name, token, queue, tag), done -> null);
    }

    @Override
    public String toString() {
        return "LeaseholdLock[" + name + "]";
    }

    // --- the inside ---

    private long startQueue(long queue, long tag) {
        return Native.clientQueue(client.handle(), name, queue, tag);
    }

    private long start(long wait, @Nullable Duration ttl, boolean renew, long queue, long tag) {
        long millis = Spans.millisIfAny(ttl, "the TTL");
        return Native.clientAcquire(client.handle(), name, wait, millis, renew, requeue, queue, tag);
    }

    private Waiter wait(long wait, @Nullable Duration ttl, boolean renew) {
        return client.wait((queue, tag) -> start(wait, ttl, renew, queue, tag));
    }

    private Completion waitInterruptibly(long wait, @Nullable Duration ttl, boolean renew) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long begun = System.nanoTime();
        try {
            return wait(wait, ttl, renew).awaitOrCancel();
        } catch (InterruptedException interrupted) {
            client.listeners().failed(name, begun, ErrorCode.CANCELLED);
            throw interrupted;
        }
    }

    /** The limit is read by the operation: a bad one fails the future, like everything else. */
    private CompletableFuture<Guard> startAsync(LongSupplier wait) {
        long begun = System.nanoTime();
        CompletableFuture<Guard> acquired = client.async(
                (queue, tag) -> start(wait.getAsLong(), ttl, renew, queue, tag),
                completion -> newGuard(begun, completion));
        if (!client.listeners().isEmpty()) {
            acquired.whenComplete((guard, error) -> {
                if (error != null) {
                    ErrorCode code = error instanceof LeaseholdException failure ? failure.code() : ErrorCode.CANCELLED;
                    client.listeners().failed(name, begun, code);
                }
            });
        }
        return acquired;
    }

    private boolean tryLock(Duration wait, @Nullable Duration ttl, boolean renew) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return reenter() || hold(guardIfAny(System.nanoTime(), waitInterruptibly(Spans.wait(wait), ttl, renew)));
    }

    private Guard guard(long begun, Completion completion) {
        if (completion.isFailure()) {
            client.listeners().failed(name, begun, ErrorCode.of((int) completion.a()));
            throw completion.failure();
        }
        return newGuard(begun, completion);
    }

    private Optional<Guard> guardIfAny(long begun, Completion completion) {
        if (completion.is(ErrorCode.NOT_ACQUIRED)) {
            client.listeners().failed(name, begun, ErrorCode.NOT_ACQUIRED);
            return Optional.empty();
        }
        return Optional.of(guard(begun, completion));
    }

    private Guard newGuard(long begun, Completion completion) {
        return new Guard(client, name, completion, begun);
    }

    /** Counts one more hold if this thread holds the lock. */
    private boolean reenter() {
        ThreadHold hold = threadHold();
        if (hold == null) {
            return false;
        }
        if (!hold.guard.held()) {
            // It is lost, and stays lost: any operation tells why, without asking etcd.
            hold.guard.extend(Duration.ofSeconds(2));
        }
        hold.count++;
        return true;
    }

    private void hold(Guard guard) {
        client.threadHolds().put(key(), new ThreadHold(guard));
    }

    private boolean hold(Optional<Guard> guard) {
        guard.ifPresent(this::hold);
        return guard.isPresent();
    }

    private void refuseDeadlock() {
        if (threadHold() != null) {
            Native.wouldDeadlock(name);
        }
    }

    private @Nullable ThreadHold threadHold() {
        return client.threadHolds().get(key());
    }

    private ThreadHold.Key key() {
        return new ThreadHold.Key(name, Thread.currentThread());
    }

    /** A span as {@link Lock} has it: less than nothing is nothing. */
    private static Duration span(long time, TimeUnit unit) {
        return Duration.ofNanos(Math.max(0, unit.toNanos(time)));
    }
}

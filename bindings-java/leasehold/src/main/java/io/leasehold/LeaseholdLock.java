package io.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
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
    private final Acquire acquire;
    private final List<Claim> claims;

    LeaseholdLock(Acquire acquire) {
        client = acquire.client();
        claims = acquire.claims();
        this.acquire = acquire;
    }

    /**
     * The name.
     *
     * @return the name; of {@linkplain LeaseholdClient#all several}, all of them, separated by commas
     */
    public String name() {
        return acquire.name();
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
        return new LeaseholdLock(acquire.withTtl(Objects.requireNonNull(ttl, "ttl")));
    }

    /**
     * The same lock, with or without renewal of its holds. Without, a hold ends at its TTL: a lock that frees itself. It is
     * renewed while it waits in any case.
     *
     * @param renew whether a hold is renewed until it is released; true by default
     * @return a lock with this option
     */
    public LeaseholdLock withRenew(boolean renew) {
        return new LeaseholdLock(acquire.withRenew(renew));
    }

    /**
     * The same lock, whose holds last at most {@code longest}: they are renewed until then, and lost then, with {@link
     * LostReason#KEY_DELETED}, whatever their owner does. After a crash the lock is free after the TTL, as without. Not together with
     * {@link #withLocalFirst} or {@link #withLinger}, whose holds share a key.
     *
     * @param longest how long a hold lasts at most; positive
     * @return a lock with this option
     */
    public LeaseholdLock withMaxHold(Duration longest) {
        return new LeaseholdLock(acquire.withMaxHold(Objects.requireNonNull(longest, "longest")));
    }

    /**
     * The same lock, with or without a second chance: whether an acquire queues again, at the end, if its session is lost while
     * it waits. Without, it fails with {@link LockLostException}.
     *
     * @param requeue whether to queue again; true by default
     * @return a lock with this option
     */
    public LeaseholdLock withRequeue(boolean requeue) {
        return new LeaseholdLock(acquire.withRequeue(requeue));
    }

    /**
     * The same lock, passed among the waiters of this client before others have their turn: {@link #withLocalFirst(int, Duration)}
     * with 64 turns and 100 ms.
     *
     * @return a lock with this option
     */
    public LeaseholdLock withLocalFirst() {
        return new LeaseholdLock(acquire.withLocalFirst(-1, null));
    }

    /**
     * The same lock, passed among the waiters of this client before others have their turn: much quicker where many of one
     * process want it, and unfair to others within this bound. Holds of one place have the same token and differ in their {@link
     * Guard#sequence}. For exclusive locks of one name.
     *
     * @param turns how many may own it one after the other while others wait, at least 1
     * @param time for how long it may be passed on while others wait, at most a minute
     * @return a lock with this option
     */
    public LeaseholdLock withLocalFirst(int turns, Duration time) {
        Objects.requireNonNull(time, "time");
        if (turns < 0) {
            throw new InvalidArgumentException("the number of turns must not be negative, as " + turns + " is");
        }
        return new LeaseholdLock(acquire.withLocalFirst(turns, time));
    }

    /**
     * The same lock, whose place stays for a while after a release with nobody waiting: the next acquire of this client needs no
     * request then. A try elsewhere fails meanwhile; who waits gets the lock at once. For exclusive locks of one name.
     *
     * @param time how long the place stays
     * @return a lock with this option
     */
    public LeaseholdLock withLinger(Duration time) {
        return new LeaseholdLock(acquire.withLinger(Objects.requireNonNull(time, "time")));
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
        return acquire.awaitOrCancel(Spans.NONE).guard();
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
        return acquire.awaitOrCancel(Spans.wait(limit)).guard();
    }

    /**
     * Takes the lock if nobody holds it or waits for it; leaves nothing in the queue otherwise.
     *
     * @return the guard, or empty
     * @throws InterruptedException if the thread is interrupted while etcd is asked
     */
    public Optional<Guard> tryAcquire() throws InterruptedException {
        return acquire.awaitOrCancel(0).guardIfAny();
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
        return acquire.awaitOrCancel(wait).guardIfAny();
    }

    /** {@link #acquire()}, interrupted or not. */
    Guard acquireUninterruptibly() {
        return acquire.await(Spans.NONE).guard();
    }

    /** {@link #tryAcquire()}, interrupted or not. */
    Optional<Guard> tryAcquireUninterruptibly() {
        return acquire.await(0).guardIfAny();
    }

    /**
     * Acquires the lock without waiting here. Cancelling the future, or ending it in another way such as a timeout, gives up the
     * place in the queue; a guard that was won at the same moment is released.
     *
     * @return the guard to come; fails as {@link #acquire()} does
     */
    public CompletableFuture<Guard> acquireAsync() {
        return acquire.async(() -> Spans.NONE);
    }

    /**
     * {@link #acquireAsync()} with a limit.
     *
     * @param limit how long to wait, not negative; zero is a try
     * @return the guard to come; fails as {@link #acquire(Duration)} does
     */
    public CompletableFuture<Guard> acquireAsync(Duration limit) {
        return acquire.async(() -> Spans.wait(limit));
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
        return acquire.tryAsync(() -> Spans.wait(limit));
    }

    // --- java.util.concurrent.locks.Lock ---

    /**
     * Waits until this thread holds the lock, for as long as it takes, interrupted or not. Returns with the lock or throws.
     *
     * @throws LockLostException if this thread held the lock and it was lost; or as {@link #withRequeue} says
     */
    @Override
    public void lock() {
        if (!reenter()) {
            hold(acquire.await(Spans.NONE).guard());
        }
    }

    /**
     * Like {@link #lock()}, but holds the lock for at most {@code lease}: it is not renewed and frees itself. If this thread holds
     * the lock already, its hold stays as it is and is counted once more.
     *
     * @param lease how long to hold, at least 2 s, rounded up to whole seconds; -1 is a hold that is renewed until it is released
     * @param unit its unit
     */
    public void lock(long lease, TimeUnit unit) {
        if (!reenter()) {
            hold(limited(lease, unit).await(Spans.NONE).guard());
        }
    }

    /**
     * Runs {@code body} while this thread holds the lock, and never without it.
     *
     * @param <T> what it returns
     * @param limit how long to wait for the lock, not negative; zero is a try
     * @param body what to do
     * @return what the body returns
     * @throws NotAcquiredException when the limit has passed: the body did not run
     * @throws LockLostException if the lock was lost while the body ran, unless the body itself threw
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws Exception what the body throws
     */
    public <T> T withLock(Duration limit, Callable<T> body) throws Exception {
        Objects.requireNonNull(body, "body");
        if (!tryLock(acquire, Objects.requireNonNull(limit, "limit"))) {
            throw new NotAcquiredException("the lock \"" + name() + "\" was not to be had within " + limit);
        }
        Throwable failure = null;
        try {
            return body.call();
        } catch (Throwable thrown) {
            failure = thrown;
            throw thrown;
        } finally {
            try {
                unlock();
            } catch (LockLostException lost) {
                if (failure == null) {
                    throw lost;
                }
                failure.addSuppressed(lost);
            }
        }
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
            hold(acquire.awaitOrCancel(Spans.NONE).guard());
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
        return switch (client.threadHolds().bearing(claims)) {
            case NONE -> hold(acquire.await(0).guardIfAny());
            case SERVES -> reenter();
            case BLOCKS -> false;
        };
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
        return tryLock(acquire, span(time, unit));
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
        return tryLock(limited(lease, unit), span(wait, unit));
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
        client.threadHolds().leave(claims);
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
        return heldByCurrentThread().filter(Guard::held).isPresent();
    }

    /**
     * How often this thread has to unlock. A hold that was lost counts until then.
     *
     * @return the number of holds through {@link #lock}
     */
    public int getHoldCount() {
        return client.threadHolds().count(claims);
    }

    /**
     * The guard of what this thread holds through {@link #lock}: for its fencing token, say.
     *
     * @return the guard, or empty if this thread holds nothing. Closing it would release the lock under the thread.
     */
    public Optional<Guard> heldByCurrentThread() {
        return client.threadHolds().guard(claims);
    }

    /**
     * Takes the lock out of the hands of this thread, without releasing it: from here on, whoever has the guard is the owner. For
     * work that a thread begins and others end.
     *
     * @return the guard of what this thread held through {@link #lock}
     * @throws IllegalMonitorStateException if this thread does not hold the lock, or has entered it more than once
     */
    public Guard handOver() {
        return client.threadHolds().handOver(claims);
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
        client.await((queue, tag) -> Native.clientForceRelease(client.handle(), oneName(), token, queue, tag));
    }

    /**
     * {@link #forceRelease} without waiting here.
     *
     * @param token the token of the contender
     * @return done when it is removed
     */
    public CompletableFuture<@Nullable Void> forceReleaseAsync(long token) {
        return client.async(
                (queue, tag) -> Native.clientForceRelease(client.handle(), oneName(), token, queue, tag), done -> null);
    }

    /** Lock objects of one client that claim the same are the same lock, whatever else they say. */
    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof LeaseholdLock lock && client == lock.client && Claim.areSame(claims, lock.claims);
    }

    @Override
    public int hashCode() {
        return name().hashCode();
    }

    @Override
    public String toString() {
        return "LeaseholdLock[" + name() + "]";
    }

    // --- the inside ---

    private long startQueue(long queue, long tag) {
        return Native.clientQueue(client.handle(), oneName(), queue, tag);
    }

    private String oneName() {
        if (claims.size() > 1) {
            throw new InvalidArgumentException("this is a lock of several names (" + name() + "), each with a queue of its own; ask the"
                    + " lock of one of them");
        }
        return claims.get(0).name();
    }

    private Acquire limited(long lease, TimeUnit unit) {
        return lease == -1 ? acquire : acquire.withTtl(Duration.of(lease, unit.toChronoUnit())).withRenew(false);
    }

    List<Claim> claims(LeaseholdClient of) {
        if (client != of) {
            throw new InvalidArgumentException("the lock \"" + name() + "\" is of another client; take all locks of one");
        }
        return claims;
    }

    LeaseholdLock withClaims(List<Claim> all) {
        return new LeaseholdLock(acquire.withClaims(all));
    }

    private boolean tryLock(Acquire limited, Duration wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (wait.isZero() && client.threadHolds().bearing(claims) == ThreadHolds.Bearing.BLOCKS) {
            return false;
        }
        return reenter() || hold(limited.awaitOrCancel(Spans.wait(wait)).guardIfAny());
    }

    /** Enters what the thread holds already, if it does; what would wait for its own thread is refused. */
    private boolean reenter() {
        return switch (client.threadHolds().bearing(claims)) {
            case NONE -> false;
            case SERVES -> {
                client.threadHolds().reenter(claims);
                yield true;
            }
            case BLOCKS -> {
                Native.wouldDeadlock(name());
                yield false;
            }
        };
    }

    private void hold(Guard guard) {
        client.threadHolds().enter(claims, guard);
    }

    private boolean hold(Optional<Guard> guard) {
        guard.ifPresent(this::hold);
        return guard.isPresent();
    }

    private void refuseDeadlock() {
        if (client.threadHolds().isAny(claims)) {
            Native.wouldDeadlock(name());
        }
    }

    /** A span as {@link Lock} has it: less than nothing is nothing. */
    private static Duration span(long time, TimeUnit unit) {
        return Duration.ofNanos(Math.max(0, unit.toNanos(time)));
    }
}

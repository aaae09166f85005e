package io.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * How a lock is acquired: what is asked of the native library, and what is made of its answer. Listeners are told of those that
 * fail here, of the others by their guard.
 *
 * @param client whose lock it is
 * @param claims what it claims, of one name or of several
 * @param ttl of the hold, unless it is the client's
 * @param maxHold how long the hold lasts at most, however often it is renewed; null for as long as its owner wants
 * @param renew whether the hold is renewed
 * @param requeue whether to queue again when the session is lost while waiting
 * @param local how its place is shared with others of this client
 * @param candidacy what is proclaimed, if this is a campaign
 */
record Acquire(
        LeaseholdClient client,
        List<Claim> claims,
        @Nullable Duration ttl,
        @Nullable Duration maxHold,
        boolean renew,
        boolean requeue,
        Local local,
        byte @Nullable [] candidacy) {
    /**
     * How a place is shared with others of the same client.
     *
     * @param first whether it is passed among them before others have their turn
     * @param turns how often; negative for the default
     * @param time for how long; null for the default
     * @param linger how long it stays after a release with nobody waiting; null for not at all
     */
    record Local(boolean first, int turns, @Nullable Duration time, @Nullable Duration linger) {
        static final Local NOT = new Local(false, -1, null, null);
    }

    static Acquire of(LeaseholdClient client, Claim claim) {
        return new Acquire(client, List.of(claim), null, null, true, true, Local.NOT, null);
    }

    /** The name; of several, all of them, for people. */
    String name() {
        return claims.size() == 1
                ? claims.get(0).name()
                : claims.stream().map(Claim::name).collect(Collectors.joining(", "));
    }

    Acquire withClaims(List<Claim> claims) {
        return new Acquire(client, List.copyOf(claims), ttl, maxHold, renew, requeue, local, candidacy);
    }

    Acquire withTtl(Duration ttl) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, local, candidacy);
    }

    Acquire withMaxHold(Duration maxHold) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, local, candidacy);
    }

    Acquire withRenew(boolean renew) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, local, candidacy);
    }

    Acquire withRequeue(boolean requeue) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, local, candidacy);
    }

    Acquire withLocalFirst(int turns, @Nullable Duration time) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, new Local(true, turns, time, local.linger), candidacy);
    }

    Acquire withLinger(Duration linger) {
        return new Acquire(
                client, claims, ttl, maxHold, renew, requeue, new Local(local.first, local.turns, local.time, linger), candidacy);
    }

    /** The campaign of a candidate. */
    Acquire standingWith(byte[] value) {
        return new Acquire(client, claims, ttl, maxHold, renew, requeue, local, Objects.requireNonNull(value, "value"));
    }

    /** Waits for at most {@code wait} ({@link Spans}), interrupted or not. */
    Answer await(long wait) {
        Listeners.Attempt attempt = client.listeners().acquiring(this);
        return new Answer(this, attempt, start(wait, attempt).await());
    }

    /** Waits for at most {@code wait} ({@link Spans}); an interrupt gives up the place in the queue. */
    Answer awaitOrCancel(long wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Listeners.Attempt attempt = client.listeners().acquiring(this);
        try {
            return new Answer(this, attempt, start(wait, attempt).awaitOrCancel());
        } catch (InterruptedException interrupted) {
            attempt.failed(ErrorCode.CANCELLED);
            throw interrupted;
        }
    }

    /** Does not wait. The limit is read when it starts: a bad one fails the future, like everything else. */
    CompletableFuture<Guard> async(LongSupplier wait) {
        Listeners.Attempt attempt = client.listeners().acquiring(this);
        CompletableFuture<Guard> acquired = client.async(
                (queue, tag) -> start(wait.getAsLong(), queue, tag),
                completion -> Guard.of(this, completion, attempt));
        if (attempt.isHeard()) {
            acquired.whenComplete((guard, error) -> {
                if (error != null) {
                    attempt.failed(error);
                }
            });
        }
        return acquired;
    }

    /** {@link #async} for those to whom not getting it is no error. */
    CompletableFuture<Optional<Guard>> tryAsync(LongSupplier wait) {
        CompletableFuture<Guard> acquired = async(wait);
        CompletableFuture<Optional<Guard>> tried = acquired.handle((guard, error) -> {
            if (error instanceof NotAcquiredException) {
                return Optional.empty();
            }
            if (error != null) {
                throw error instanceof RuntimeException known ? known : new CompletionException(error);
            }
            return Optional.of(guard);
        });
        // Whoever ends this one first ends the acquire, or has no use for what it won at that very moment.
        tried.whenComplete((taken, error) -> {
            if (!acquired.cancel(false) && (taken == null || taken.isEmpty())) {
                acquired.thenAccept(Guard::discard);
            }
        });
        return tried;
    }

    private Waiter start(long wait, Listeners.Attempt attempt) {
        try {
            return client.wait((queue, tag) -> start(wait, queue, tag));
        } catch (Throwable refused) {
            attempt.failed(refused);
            throw refused;
        }
    }

    private long start(long wait, long queue, long tag) {
        long millis = Spans.millisIfAny(ttl, "the TTL");
        checkMaxHold();
        if (candidacy != null) {
            return Native.clientCampaign(client.handle(), name(), candidacy, wait, millis, renew, requeue, queue, tag);
        }
        String[] names = new String[claims.size()];
        int[] numbers = new int[claims.size() * Claim.NUMBERS];
        for (int index = 0; index < names.length; index++) {
            Claim claim = claims.get(index);
            names[index] = claim.name();
            numbers[index * Claim.NUMBERS] = claim.kind().ordinal();
            numbers[index * Claim.NUMBERS + 1] = claim.permits();
            numbers[index * Claim.NUMBERS + 2] = claim.limit();
        }
        return Native.clientAcquire(
                client.handle(),
                names,
                numbers,
                wait,
                millis,
                renew,
                requeue,
                local.first,
                local.turns,
                Spans.millisIfAny(local.time, "the time of local first"),
                Spans.millisIfAny(local.linger, "the linger time"),
                queue,
                tag);
    }

    private void checkMaxHold() {
        if (maxHold == null) {
            return;
        }
        if (maxHold.isZero() || maxHold.isNegative()) {
            throw new InvalidArgumentException("the longest time of a hold must be positive, not " + maxHold);
        }
        if (local.first || local.linger != null) {
            throw new InvalidArgumentException("a hold whose place is shared with others of this client (local first, linger) cannot"
                    + " have a longest time: what ends it would end theirs; give one of both");
        }
    }

    /** What came of it. */
    record Answer(Acquire acquire, Listeners.Attempt attempt, Completion completion) {
        /** The guard, or the exception. */
        Guard guard() {
            if (completion.isFailure()) {
                attempt.failed(ErrorCode.of((int) completion.a()));
                throw completion.failure();
            }
            return Guard.of(acquire, completion, attempt);
        }

        /** The guard, empty if it was not acquired, or the exception. */
        Optional<Guard> guardIfAny() {
            if (completion.is(ErrorCode.NOT_ACQUIRED)) {
                attempt.failed(ErrorCode.NOT_ACQUIRED);
                return Optional.empty();
            }
            return Optional.of(guard());
        }
    }
}

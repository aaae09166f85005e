package io.leasehold;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * How a lock is acquired: what is asked of the native library, and what is made of its answer. Listeners are told of those that
 * fail here, of the others by their guard.
 *
 * @param client whose lock it is
 * @param name of the lock
 * @param ttl of the hold, unless it is the client's
 * @param renew whether the hold is renewed
 * @param requeue whether to queue again when the session is lost while waiting
 */
record Acquire(LeaseholdClient client, String name, @Nullable Duration ttl, boolean renew, boolean requeue) {
    Acquire withTtl(Duration ttl) {
        return new Acquire(client, name, ttl, renew, requeue);
    }

    Acquire withRenew(boolean renew) {
        return new Acquire(client, name, ttl, renew, requeue);
    }

    Acquire withRequeue(boolean requeue) {
        return new Acquire(client, name, ttl, renew, requeue);
    }

    /** Waits for at most {@code wait} ({@link Spans}), interrupted or not. */
    Answer await(long wait) {
        long begun = System.nanoTime();
        return new Answer(this, begun, start(wait).await());
    }

    /** Waits for at most {@code wait} ({@link Spans}); an interrupt gives up the place in the queue. */
    Answer awaitOrCancel(long wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long begun = System.nanoTime();
        try {
            return new Answer(this, begun, start(wait).awaitOrCancel());
        } catch (InterruptedException interrupted) {
            failed(begun, ErrorCode.CANCELLED);
            throw interrupted;
        }
    }

    /** Does not wait. The limit is read when it starts: a bad one fails the future, like everything else. */
    CompletableFuture<Guard> async(LongSupplier wait) {
        long begun = System.nanoTime();
        CompletableFuture<Guard> acquired = client.async(
                (queue, tag) -> start(wait.getAsLong(), queue, tag),
                completion -> new Guard(client, name, completion, begun));
        if (!client.listeners().isEmpty()) {
            acquired.whenComplete((guard, error) -> {
                if (error != null) {
                    failed(begun, error instanceof LeaseholdException failure ? failure.code() : ErrorCode.CANCELLED);
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
                throw (RuntimeException) error;
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

    private Waiter start(long wait) {
        return client.wait((queue, tag) -> start(wait, queue, tag));
    }

    private long start(long wait, long queue, long tag) {
        long millis = Spans.millisIfAny(ttl, "the TTL");
        return Native.clientAcquire(client.handle(), name, wait, millis, renew, requeue, queue, tag);
    }

    private void failed(long begun, ErrorCode code) {
        client.listeners().failed(name, begun, code);
    }

    /** What came of it. */
    record Answer(Acquire acquire, long begun, Completion completion) {
        /** The guard, or the exception. */
        Guard guard() {
            if (completion.isFailure()) {
                acquire.failed(begun, ErrorCode.of((int) completion.a()));
                throw completion.failure();
            }
            return new Guard(acquire.client, acquire.name, completion, begun);
        }

        /** The guard, empty if it was not acquired, or the exception. */
        Optional<Guard> guardIfAny() {
            if (completion.is(ErrorCode.NOT_ACQUIRED)) {
                acquire.failed(begun, ErrorCode.NOT_ACQUIRED);
                return Optional.empty();
            }
            return Optional.of(guard());
        }
    }
}

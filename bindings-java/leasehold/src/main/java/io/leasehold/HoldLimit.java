package io.leasehold;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;

/**
 * The longest time of a hold: when it has passed, the key of the hold is taken away, as an operator would do it, and so the hold is
 * lost. By the clock of this process it is over before that. The timer is the JDK's own, and forgets a hold that is released.
 */
final class HoldLimit {
    /** After how long it tries again where etcd did not answer. */
    private static final Duration RETRY = Duration.ofSeconds(1);

    private final LeaseholdLock lock;
    private final long token;
    private final long deadline;
    private final CompletableFuture<Boolean> released = new CompletableFuture<>();

    private HoldLimit(LeaseholdLock lock, long token, long nanos) {
        this.lock = lock;
        this.token = token;
        deadline = System.nanoTime() + nanos;
    }

    static HoldLimit start(Acquire acquire, long token) {
        Duration longest = Objects.requireNonNull(acquire.maxHold());
        // As good as no limit, for a clock that counts nanoseconds.
        Duration countable = longest.compareTo(Duration.ofDays(36_500)) > 0 ? Duration.ofDays(36_500) : longest;
        // A hold of several names is lost as a whole when one of its keys is.
        String name = acquire.claims().get(0).name();
        HoldLimit limit = new HoldLimit(acquire.client().lock(name), token, countable.toNanos());
        limit.after(countable);
        return limit;
    }

    /** What is said of a hold that lasted too long. */
    static LockLostException passed(String name) {
        return new LockLostException(message(name), LostReason.KEY_DELETED);
    }

    /** The same, as what its release brought. */
    static Completion passed(Completion released, String name) {
        return new Completion(
                released.last(),
                Completion.FAILED,
                ErrorCode.LOST.number(),
                LostReason.KEY_DELETED.number(),
                0,
                message(name),
                null);
    }

    private static String message(String name) {
        return "the lock \"" + name + "\" has been held for as long as it may be (withMaxHold): it is free for others since then";
    }

    /** Whether the time has passed. */
    boolean isOver() {
        return remaining() == 0;
    }

    /** Nanoseconds that are left; 0 when none are. */
    long remaining() {
        return Math.max(0, deadline - System.nanoTime());
    }

    /** The hold is over before its time. */
    void cancel() {
        released.complete(true);
    }

    private void after(Duration span) {
        released.copy().completeOnTimeout(false, span.toNanos(), TimeUnit.NANOSECONDS).thenAccept(isReleased -> {
            if (!isReleased) {
                end();
            }
        });
    }

    private void end() {
        lock.forceReleaseAsync(token).whenComplete((done, error) -> {
            Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
            // Whatever else it says, there is nothing left to end: the hold is gone, or its client is.
            if (cause instanceof UnavailableException || cause instanceof DeadlineExceededException) {
                after(RETRY);
            }
        });
    }
}

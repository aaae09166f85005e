package io.leasehold.reactor;

import io.leasehold.Guard;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * A lock around a {@link Mono} or a {@link Flux}: each subscription takes it without blocking, subscribes to the body, and holds the
 * lock until that ends, fails or is cancelled. Whoever cancels while it waits gives up its place in the queue.
 *
 * <p>A chain that holds the lock enters it again: a subscription whose context comes from within the body of the same lock. The
 * guard is in that context under {@code Guard.class}. If the lock was lost while the body ran, the end of the body becomes a {@link
 * LockLostException}; what the body failed with stays, with the loss among its suppressed exceptions.
 */
public final class ReactiveLock {
    private final LeaseholdLock lock;
    private final @Nullable Duration limit;

    private ReactiveLock(LeaseholdLock lock, @Nullable Duration limit) {
        this.lock = lock;
        this.limit = limit;
    }

    /**
     * A lock, for Reactor.
     *
     * @param lock the lock, with whatever options
     * @return the same lock; it is waited for as long as it takes
     */
    public static ReactiveLock of(LeaseholdLock lock) {
        return new ReactiveLock(Objects.requireNonNull(lock, "lock"), null);
    }

    /**
     * The same lock, waited for no longer than this.
     *
     * @param limit how long to wait, not negative; zero is a try. Then the result fails with {@link
     *     io.leasehold.NotAcquiredException}
     * @return a lock with this limit
     */
    public ReactiveLock within(Duration limit) {
        return new ReactiveLock(lock, Objects.requireNonNull(limit, "limit"));
    }

    /**
     * The guard itself, for {@link Mono#usingWhen} of your own. Whoever gets it releases it.
     *
     * @return takes the lock at each subscription; cancelling gives up the place in the queue
     */
    public Mono<Guard> acquire() {
        Duration most = limit;
        return most == null ? Mono.fromFuture(lock::acquireAsync) : Mono.fromFuture(() -> lock.acquireAsync(most));
    }

    /**
     * Runs a body under the lock.
     *
     * @param <T> what it brings
     * @param body makes what to subscribe to while the lock is held, of its guard
     * @return what the body brings, once the lock is released
     */
    public <T> Mono<T> mono(Function<Guard, ? extends Mono<? extends T>> body) {
        return mono(body, Mono::error);
    }

    /**
     * Runs a body under the lock, or something else without it.
     *
     * @param <T> what it brings
     * @param body makes what to subscribe to while the lock is held, of its guard
     * @param otherwise makes what to subscribe to when the lock was not acquired, of why
     * @return what either brings
     */
    public <T> Mono<T> mono(
            Function<Guard, ? extends Mono<? extends T>> body,
            Function<LeaseholdException, ? extends Mono<? extends T>> otherwise) {
        Objects.requireNonNull(body, "body");
        Objects.requireNonNull(otherwise, "otherwise");
        return Mono.deferContextual(context -> {
            Guard held = held(context);
            if (held != null) {
                return again(held).then(Mono.defer(() -> body.apply(held)));
            }
            return Mono.<T, Taken>usingWhen(
                            taken(),
                            taken -> taken.guard == null
                                    ? Mono.from(otherwise.apply(taken.failure()))
                                    : Mono.<T>from(body.apply(taken.guard)).contextWrite(holding(taken.guard)),
                            Taken::release,
                            Taken::releaseAfter,
                            taken -> taken.release().onErrorComplete())
                    .onErrorMap(ReactiveLock::isLoss, Throwable::getCause)
                    .doOnDiscard(Taken.class, Taken::discard)
                    // What is won at the moment of a cancel has not become one yet.
                    .doOnDiscard(Guard.class, ReactiveLock::discard);
        });
    }

    /**
     * Runs a body under the lock.
     *
     * @param <T> what it brings
     * @param body makes what to subscribe to while the lock is held, of its guard
     * @return what the body brings; it completes once the lock is released
     */
    public <T> Flux<T> flux(Function<Guard, ? extends Publisher<? extends T>> body) {
        return flux(body, Flux::error);
    }

    /**
     * Runs a body under the lock, or something else without it.
     *
     * @param <T> what it brings
     * @param body makes what to subscribe to while the lock is held, of its guard
     * @param otherwise makes what to subscribe to when the lock was not acquired, of why
     * @return what either brings
     */
    public <T> Flux<T> flux(
            Function<Guard, ? extends Publisher<? extends T>> body,
            Function<LeaseholdException, ? extends Publisher<? extends T>> otherwise) {
        Objects.requireNonNull(body, "body");
        Objects.requireNonNull(otherwise, "otherwise");
        return Flux.deferContextual(context -> {
            Guard held = held(context);
            if (held != null) {
                return again(held).thenMany(Flux.defer(() -> Flux.<T>from(body.apply(held))));
            }
            return Flux.<T, Taken>usingWhen(
                            taken(),
                            taken -> taken.guard == null
                                    ? Flux.from(otherwise.apply(taken.failure()))
                                    : Flux.<T>from(body.apply(taken.guard)).contextWrite(holding(taken.guard)),
                            Taken::release,
                            Taken::releaseAfter,
                            taken -> taken.release().onErrorComplete())
                    .onErrorMap(ReactiveLock::isLoss, Throwable::getCause)
                    .doOnDiscard(Taken.class, Taken::discard)
                    // What is won at the moment of a cancel has not become one yet.
                    .doOnDiscard(Guard.class, ReactiveLock::discard);
        });
    }

    @Override
    public String toString() {
        return "ReactiveLock[" + lock.name() + "]";
    }

    // --- the inside ---

    /** Where a chain notes that it holds a lock: to enter it again. */
    private static final class Key {
        private final LeaseholdLock lock;

        Key(LeaseholdLock lock) {
            this.lock = lock;
        }

        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof Key key && lock.equals(key.lock);
        }

        @Override
        public int hashCode() {
            return lock.hashCode();
        }
    }

    private @Nullable Guard held(ContextView context) {
        return context.getOrDefault(new Key(lock), null);
    }

    private Function<Context, Context> holding(Guard guard) {
        return context -> context.put(new Key(lock), guard).put(Guard.class, guard);
    }

    /** The lock, or why it was not acquired: no failure yet, because that may have an answer. */
    private Mono<Taken> taken() {
        return acquire()
                .map(guard -> new Taken(guard, null))
                .onErrorResume(LeaseholdException.class, why -> Mono.just(new Taken(null, why)));
    }

    /** The chain holds the lock already, and goes on if it still does. */
    private static Mono<Void> again(Guard guard) {
        return guard.held()
                ? Mono.empty()
                // It is lost, and stays lost: any operation tells why.
                : Mono.fromFuture(() -> guard.extendAsync(Duration.ofSeconds(2))).then();
    }

    /** What Reactor makes of a loss that the release tells of. */
    private static boolean isLoss(Throwable thrown) {
        return thrown.getClass() == RuntimeException.class && thrown.getCause() instanceof LockLostException;
    }

    private static void discard(Guard unwanted) {
        unwanted.closeAsync().exceptionally(unheard -> null);
    }

    /** What came of an acquire: a guard, or a failure. */
    private record Taken(@Nullable Guard guard, @Nullable LeaseholdException why) {
        LeaseholdException failure() {
            return Objects.requireNonNull(why);
        }

        Mono<Void> release() {
            Guard held = guard;
            return held == null ? Mono.empty() : Mono.fromFuture(() -> held.closeAsync());
        }

        Mono<Void> releaseAfter(Throwable failure) {
            return release().onErrorResume(lost -> {
                failure.addSuppressed(lost);
                return Mono.empty();
            });
        }

        void discard() {
            if (guard != null) {
                ReactiveLock.discard(guard);
            }
        }
    }
}

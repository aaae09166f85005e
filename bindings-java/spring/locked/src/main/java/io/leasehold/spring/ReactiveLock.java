package io.leasehold.spring;

import io.leasehold.Guard;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import io.leasehold.NotAcquiredException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.aopalliance.intercept.MethodInvocation;
import org.reactivestreams.Publisher;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.core.ReactiveAdapter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/** The lock around a method that returns a publisher: taken by each subscription, without blocking. Needs Reactor. */
final class ReactiveLock {
    /** Where a chain notes that it holds a lock: to enter it again. */
    private record Key(String name, String identity) {}

    private ReactiveLock() {}

    static Object around(LockedMethod method, LeaseholdLock lock, MethodInvocation invocation) {
        ReactiveAdapter adapter = Deferral.adapter(invocation.getMethod().getReturnType())
                .or(() -> Deferral.adapter(method.returns))
                .orElseThrow();
        ReactiveLock around = new ReactiveLock();
        return adapter.fromPublisher(
                adapter.isMultiValue()
                        ? Flux.deferContextual(context -> around.many(method, lock, invocation, adapter, context))
                        : Mono.deferContextual(context -> around.one(method, lock, invocation, adapter, context)));
    }

    private Flux<Object> many(
            LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, ReactiveAdapter adapter, ContextView context) {
        Key key = new Key(lock.name(), method.client);
        if (context.hasKey(key)) {
            return again(context.get(key)).thenMany(Flux.defer(() -> body(invocation, adapter, context.get(key))));
        }
        return Flux.usingWhen(
                        acquire(method, lock),
                        guard -> Flux.from(body(invocation, adapter, guard)).contextWrite(holding(key, guard)),
                        ReactiveLock::release,
                        ReactiveLock::releaseAfter,
                        guard -> release(guard).onErrorComplete())
                .onErrorMap(ReactiveLock::isLoss, Throwable::getCause)
                .doOnDiscard(Guard.class, ReactiveLock::discard);
    }

    private Mono<Object> one(
            LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, ReactiveAdapter adapter, ContextView context) {
        Key key = new Key(lock.name(), method.client);
        if (context.hasKey(key)) {
            return again(context.get(key)).then(Mono.defer(() -> Mono.from(body(invocation, adapter, context.get(key)))));
        }
        return Mono.usingWhen(
                        acquire(method, lock),
                        guard -> Mono.from(body(invocation, adapter, guard)).contextWrite(holding(key, guard)),
                        ReactiveLock::release,
                        ReactiveLock::releaseAfter,
                        guard -> release(guard).onErrorComplete())
                .onErrorMap(ReactiveLock::isLoss, Throwable::getCause)
                .doOnDiscard(Guard.class, ReactiveLock::discard);
    }

    private static Mono<Guard> acquire(LockedMethod method, LeaseholdLock lock) {
        Duration limit = method.limit;
        if (limit == null) {
            return Mono.fromFuture(lock::acquireAsync);
        }
        Mono<Guard> acquired = Mono.fromFuture(() -> lock.acquireAsync(limit));
        return method.skips
                ? acquired.onErrorResume(NotAcquiredException.class, busy -> Mono.empty())
                : acquired.onErrorMap(NotAcquiredException.class, busy -> method.busy(lock));
    }

    private static java.util.function.Function<Context, Context> holding(Key key, Guard guard) {
        return context -> context.put(key, guard).put(Guard.class, guard);
    }

    /** Runs the method: all of it, for each subscription. */
    private static Publisher<Object> body(MethodInvocation invocation, ReactiveAdapter adapter, Guard guard) {
        MethodInvocation once =
                invocation instanceof ProxyMethodInvocation proxied ? proxied.invocableClone() : invocation;
        CurrentLock.enter(guard);
        try {
            return adapter.toPublisher(once.proceed());
        } catch (Throwable thrown) {
            return Mono.error(thrown);
        } finally {
            CurrentLock.leave();
        }
    }

    /** The chain holds the lock already, and goes on if it still does. */
    private static Mono<Void> again(Guard guard) {
        return guard.held()
                ? Mono.empty()
                // It is lost, and stays lost: any operation tells why.
                : Mono.fromFuture(() -> guard.extendAsync(Duration.ofSeconds(2))).then();
    }

    private static Mono<Void> release(Guard guard) {
        return Mono.fromFuture(() -> Release.of(guard));
    }

    private static Mono<Void> releaseAfter(Guard guard, Throwable failure) {
        return release(guard).onErrorResume(lost -> {
            failure.addSuppressed(lost);
            return Mono.empty();
        });
    }

    /** What Reactor makes of a loss that the release tells of. */
    private static boolean isLoss(Throwable thrown) {
        return thrown.getClass() == RuntimeException.class && thrown.getCause() instanceof LockLostException;
    }

    private static void discard(Guard guard) {
        CompletableFuture<?> unheard = Release.of(guard);
        unheard.exceptionally(lost -> null);
    }
}

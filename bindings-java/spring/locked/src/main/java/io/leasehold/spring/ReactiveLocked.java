package io.leasehold.spring;

import io.leasehold.Guard;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.NotAcquiredException;
import io.leasehold.reactor.ReactiveLock;
import org.aopalliance.intercept.MethodInvocation;
import org.reactivestreams.Publisher;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.core.ReactiveAdapter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The lock around a method that returns a publisher: taken by each subscription, without blocking. Needs Reactor. */
final class ReactiveLocked {
    private final LockedMethod method;
    private final LeaseholdLock lock;
    private final MethodInvocation invocation;
    private final Object target;
    private final ReactiveAdapter adapter;

    private ReactiveLocked(LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, Object target) {
        this.method = method;
        this.lock = lock;
        this.invocation = invocation;
        this.target = target;
        adapter = Deferral.adapter(invocation.getMethod().getReturnType())
                .or(() -> Deferral.adapter(method.returns))
                .orElseThrow();
    }

    static Object around(LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, Object target) {
        return new ReactiveLocked(method, lock, invocation, target).publisher();
    }

    private Object publisher() {
        ReactiveLock reactive = ReactiveLock.of(lock);
        if (method.limit != null) {
            reactive = reactive.within(method.limit);
        }
        return adapter.fromPublisher(
                adapter.isMultiValue()
                        ? reactive.flux(this::body, this::instead)
                        : reactive.mono(guard -> Mono.from(body(guard)), why -> Mono.from(instead(why))));
    }

    /** Runs the method: all of it, for each subscription. */
    private Publisher<Object> body(Guard guard) {
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

    /** What comes where the lock is not to be had. */
    private Publisher<Object> instead(LeaseholdException why) {
        if (why instanceof NotAcquiredException && method.skips) {
            return Flux.empty();
        }
        LeaseholdException told = why instanceof NotAcquiredException ? method.busy(lock) : why;
        Fallback fallback = method.fallback;
        if (fallback == null || !fallback.isFor(why)) {
            return Flux.error(told);
        }
        try {
            return adapter.toPublisher(fallback.call(target, invocation.getArguments(), told));
        } catch (Throwable thrown) {
            return Flux.error(thrown);
        }
    }
}

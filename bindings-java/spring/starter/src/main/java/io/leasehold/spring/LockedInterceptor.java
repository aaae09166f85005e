package io.leasehold.spring;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import io.leasehold.NotAcquiredException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.support.AopUtils;
import org.springframework.util.StringValueResolver;

/** Takes the lock, runs the method, releases the lock. */
final class LockedInterceptor implements MethodInterceptor {
    private final Supplier<LeaseholdClient> client;
    private final StringValueResolver placeholders;
    private final Map<Method, LockedMethod> methods = new ConcurrentHashMap<>();

    LockedInterceptor(Supplier<LeaseholdClient> client, StringValueResolver placeholders) {
        this.client = client;
        this.placeholders = placeholders;
    }

    /** Reads and checks the annotation of a method that has one: once. */
    LockedMethod method(Method method) {
        return methods.computeIfAbsent(method, each -> new LockedMethod(each, placeholders));
    }

    @Override
    public @Nullable Object invoke(MethodInvocation invocation) throws Throwable {
        Object target = Objects.requireNonNull(invocation.getThis(), "a bean");
        Method called = AopUtils.getMostSpecificMethod(invocation.getMethod(), target.getClass());
        LockedMethod method = method(called);
        LeaseholdLock lock = client.get().lock(method.name(target, invocation.getArguments()));
        if (!take(lock, method)) {
            if (method.skips) {
                return method.skipped();
            }
            throw new NotAcquiredException("the lock \"" + lock.name() + "\" of " + called.getDeclaringClass().getSimpleName() + "."
                    + called.getName() + " was not to be had within " + method.limit);
        }
        return run(invocation, lock);
    }

    private static boolean take(LeaseholdLock lock, LockedMethod method) throws InterruptedException {
        try {
            if (method.limit == null) {
                lock.lockInterruptibly();
                return true;
            }
            return lock.tryLock(method.limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupted) {
            if (method.declaresInterrupts) {
                throw interrupted;
            }
            // A method that does not declare it cannot throw it.
            Thread.currentThread().interrupt();
            CancellationException cancelled =
                    new CancellationException("interrupted while waiting for the lock \"" + lock.name() + "\"");
            cancelled.initCause(interrupted);
            throw cancelled;
        }
    }

    private static @Nullable Object run(MethodInvocation invocation, LeaseholdLock lock) throws Throwable {
        Throwable failure = null;
        CurrentLock.enter(lock.heldByCurrentThread().orElseThrow());
        try {
            return invocation.proceed();
        } catch (Throwable thrown) {
            failure = thrown;
            throw thrown;
        } finally {
            CurrentLock.leave();
            try {
                lock.unlock();
            } catch (LockLostException lost) {
                if (failure == null) {
                    throw lost;
                }
                failure.addSuppressed(lost);
            }
        }
    }
}

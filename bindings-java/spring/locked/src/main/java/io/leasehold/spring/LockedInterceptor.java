package io.leasehold.spring;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.annotation.BeanFactoryAnnotationUtils;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.core.MethodClassKey;
import org.springframework.util.ClassUtils;

/** Takes the lock, runs the method, releases the lock when the method's work is done. */
final class LockedInterceptor implements MethodInterceptor {
    private static final System.Logger LOGGER = System.getLogger(LockedInterceptor.class.getName());
    private static final boolean HAS_TRANSACTIONS = ClassUtils.isPresent(
            "org.springframework.transaction.support.TransactionSynchronizationManager",
            LockedInterceptor.class.getClassLoader());

    private final ConfigurableBeanFactory beans;
    private final OuterTransaction outerTransaction;
    private final Map<MethodClassKey, LockedMethod> methods = new ConcurrentHashMap<>();

    LockedInterceptor(ConfigurableBeanFactory beans, OuterTransaction outerTransaction) {
        this.beans = beans;
        this.outerTransaction = outerTransaction;
    }

    /** Reads and checks the annotation of a method that has one: once. */
    LockedMethod method(Method method, Class<?> type) {
        return methods.computeIfAbsent(new MethodClassKey(method, type), each -> new LockedMethod(method, type, beans));
    }

    @Override
    public @Nullable Object invoke(MethodInvocation invocation) throws Throwable {
        Object target = invocation.getThis();
        if (target == null && invocation instanceof ProxyMethodInvocation proxied) {
            // An interface whose calls are answered by other interceptors.
            target = proxied.getProxy();
        }
        if (target == null) {
            throw new IllegalStateException("@Locked on " + invocation.getMethod() + ": there is no bean behind it");
        }
        LockedMethod method = method(called(invocation, target), AopUtils.getTargetClass(target));
        LeaseholdLock lock = method.lock(client(method), target, invocation.getArguments());
        if (method.deferral == Deferral.PUBLISHER) {
            return ReactiveLocked.around(method, lock, invocation, target);
        }
        return block(method, lock, invocation, target);
    }

    /** The method that says how to lock: that of the bean's class, or of an interface, where the class is a proxy's. */
    private static Method called(MethodInvocation invocation, Object target) {
        Method specific = AopUtils.getMostSpecificMethod(invocation.getMethod(), AopUtils.getTargetClass(target));
        return Proxy.isProxyClass(specific.getDeclaringClass()) || LockedMethod.find(specific) == null
                ? invocation.getMethod()
                : specific;
    }

    private LeaseholdClient client(LockedMethod method) {
        return method.client.isEmpty()
                ? beans.getBean(LeaseholdClient.class)
                : BeanFactoryAnnotationUtils.qualifiedBeanOfType(beans, LeaseholdClient.class, method.client);
    }

    // --- where a thread waits for the lock ---

    private @Nullable Object block(LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, Object target)
            throws Throwable {
        boolean isInTransaction = HAS_TRANSACTIONS && lock.getHoldCount() == 0 && OuterTransactions.isActive();
        if (isInTransaction) {
            tell(method);
        }
        Fallback fallback = method.fallback;
        try {
            if (!take(lock, method)) {
                if (method.skips) {
                    return method.skipped();
                }
                throw method.busy(lock);
            }
        } catch (LeaseholdException notToBeHad) {
            if (fallback == null || !fallback.isFor(notToBeHad)) {
                throw notToBeHad;
            }
            return fallback.call(target, invocation.getArguments(), notToBeHad);
        }
        boolean isKept = false;
        if (isInTransaction && outerTransaction == OuterTransaction.HOLD) {
            try {
                OuterTransactions.releaseAtTheEnd(lock);
                isKept = true;
            } finally {
                if (!isKept) {
                    lock.unlock();
                }
            }
        }
        return run(method, lock, invocation, isKept);
    }

    private void tell(LockedMethod method) {
        String message = method + " takes its lock inside a transaction that has begun before: it would commit after the lock is"
                + " released. Begin the transaction inside the lock";
        if (outerTransaction == OuterTransaction.REFUSE) {
            throw new IllegalStateException(message);
        }
        if (outerTransaction == OuterTransaction.WARN) {
            LOGGER.log(System.Logger.Level.WARNING, message);
        }
    }

    private static boolean take(LeaseholdLock lock, LockedMethod method) throws InterruptedException {
        try {
            Duration limit = method.limit;
            if (limit == null) {
                lock.lockInterruptibly();
                return true;
            }
            return lock.tryLock(limit.toMillis(), TimeUnit.MILLISECONDS);
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

    /** Runs the method. The lock is this thread's; {@code isKept} if somebody else releases it. */
    private static @Nullable Object run(LockedMethod method, LeaseholdLock lock, MethodInvocation invocation, boolean isKept)
            throws Throwable {
        Throwable failure = null;
        boolean isOurs = !isKept;
        CurrentLock.enter(lock.heldByCurrentThread().orElseThrow());
        try {
            Object result = invocation.proceed();
            if (result == null || (method.deferral == Deferral.NONE && !method.isOpen)) {
                return result;
            }
            if (result instanceof CompletionStage<?> stage && method.deferral == Deferral.STAGE && isOurs
                    && lock.getHoldCount() == 1 && !isDone(stage)) {
                CompletableFuture<?> spanning = span(stage, lock.handOver());
                isOurs = false;
                return spanning;
            }
            return settled(method, result);
        } catch (Throwable thrown) {
            failure = thrown;
            throw thrown;
        } finally {
            CurrentLock.leave();
            if (isOurs) {
                unlock(lock, failure);
            }
        }
    }

    private static void unlock(LeaseholdLock lock, @Nullable Throwable failure) {
        try {
            lock.unlock();
        } catch (LockLostException lost) {
            if (failure == null) {
                throw lost;
            }
            failure.addSuppressed(lost);
        }
    }

    private static boolean isDone(CompletionStage<?> stage) {
        return stage instanceof Future<?> future && future.isDone();
    }

    /** What was returned, when its work is done: the lock is held until then. */
    private static Object settled(LockedMethod method, Object result) throws InterruptedException {
        Future<?> future = result instanceof Future<?> each
                ? each
                : result instanceof CompletionStage<?> stage ? stage.toCompletableFuture() : null;
        if (future != null) {
            try {
                future.get();
            } catch (ExecutionException | CancellationException theirs) {
                // Whoever looks at the future sees it.
            }
        } else if (Deferral.of(result.getClass()) != Deferral.NONE) {
            throw method.refused("it returned a " + result.getClass().getName() + ", whose work begins when the lock is released;"
                    + " declare the type that it returns");
        }
        return result;
    }

    /** A stage that is done when the work is done and the lock released. To cancel it cancels the work, as far as that can be. */
    private static <T> CompletableFuture<T> span(CompletionStage<T> stage, Guard guard) {
        CompletableFuture<T> spanning = new CompletableFuture<>();
        stage.whenComplete((value, failure) -> guard.closeAsync().whenComplete((done, lost) -> {
            if (failure != null) {
                Throwable cause = failure instanceof CompletionException && failure.getCause() != null
                        ? failure.getCause()
                        : failure;
                if (lost != null) {
                    cause.addSuppressed(lost);
                }
                spanning.completeExceptionally(cause);
            } else if (lost != null) {
                spanning.completeExceptionally(lost);
            } else {
                spanning.complete(value);
            }
        }));
        spanning.whenComplete((value, failure) -> {
            if (spanning.isCancelled()) {
                stage.toCompletableFuture().cancel(true);
            }
        });
        return spanning;
    }
}

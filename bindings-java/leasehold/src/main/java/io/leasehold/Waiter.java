package io.leasehold;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A thread that waits for one result.
 *
 * <p>A platform thread blocks in the native library for a moment first: most operations are over by then, and what they bring
 * needs no second thread to bring it. Then, as a virtual thread does from the start, it waits parked in Java: it can be
 * interrupted, and costs no carrier.
 */
final class Waiter implements Receiver {
    /** The moment, in microseconds. An interrupt is noticed after it. */
    private static final long MOMENT = 2_000;

    private static final Predicate<Thread> IS_VIRTUAL = isVirtual();

    private final Thread thread = Thread.currentThread();
    private long operation;
    private volatile @Nullable Completion result;

    private Waiter() {}

    /** Starts an operation of this client that the calling thread waits for. */
    static Waiter start(Dispatcher.Start operation) {
        Waiter waiter = new Waiter();
        if (IS_VIRTUAL.test(waiter.thread)) {
            Dispatcher.start(waiter, operation);
            return waiter;
        }
        long[] numbers = new long[Completion.NUMBERS];
        @Nullable Object[] objects = new @Nullable Object[Completion.OBJECTS];
        long id = operation.start(0, 0);
        if (Native.waiterTake(MOMENT, numbers, objects)) {
            waiter.result = Completion.of(numbers, objects, 0);
        } else {
            try {
                Dispatcher.start(waiter, (queue, tag) -> {
                    Native.waiterMove(queue, tag);
                    return id;
                });
            } catch (Throwable noMemory) {
                // Nobody waits for it any more.
                Native.waiterDrop();
                Native.cancel(id);
                throw noMemory;
            }
        }
        return waiter;
    }

    /** {@code Thread.isVirtual}, which Java 17 does not have. */
    private static Predicate<Thread> isVirtual() {
        try {
            MethodHandle isVirtual = MethodHandles.publicLookup()
                    .findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
            return thread -> {
                try {
                    return (boolean) isVirtual.invokeExact(thread);
                } catch (Throwable never) {
                    throw new AssertionError(never);
                }
            };
        } catch (NoSuchMethodException | IllegalAccessException before21) {
            return thread -> false;
        }
    }

    @Override
    public void started(long operation) {
        this.operation = operation;
    }

    @Override
    public void take(Completion completion) {
        result = completion;
        LockSupport.unpark(thread);
    }

    /** Waits for the result, however often the thread is interrupted; it stays interrupted. */
    Completion await() {
        boolean wasInterrupted = false;
        Completion completion;
        while ((completion = result) == null) {
            LockSupport.park(this);
            wasInterrupted |= Thread.interrupted();
        }
        if (wasInterrupted) {
            thread.interrupt();
        }
        return completion;
    }

    /**
     * Waits for the result; an interrupt cancels the operation. That is a request: it answers when nothing of it is left, or
     * with what it had brought before. Only in the first case the interrupt is the answer; else the thread stays interrupted.
     */
    Completion awaitOrCancel() throws InterruptedException {
        boolean wasInterrupted = false;
        Completion completion;
        while ((completion = result) == null) {
            LockSupport.park(this);
            if (Thread.interrupted()) {
                wasInterrupted = true;
                Native.cancel(operation);
            }
        }
        if (wasInterrupted) {
            if (completion.is(ErrorCode.CANCELLED)) {
                throw new InterruptedException("interrupted while waiting for a lock; the place in the queue is given up");
            }
            thread.interrupt();
        }
        return completion;
    }
}

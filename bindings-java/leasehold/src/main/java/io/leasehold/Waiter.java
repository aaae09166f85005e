package io.leasehold;

import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/** A thread that waits for one result, parked in Java: it can be interrupted, and a virtual one frees its carrier. */
final class Waiter implements Receiver {
    private final Thread thread = Thread.currentThread();
    private long operation;
    private volatile @Nullable Completion result;

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

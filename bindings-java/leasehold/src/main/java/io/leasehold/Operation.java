package io.leasehold;

import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * An operation as a future. Whoever ends the future first, by cancelling it or with a timeout, cancels the operation; a guard
 * that arrives afterwards is released.
 */
final class Operation<T> extends CompletableFuture<T> implements Receiver {
    private final Function<Completion, T> result;
    private final Executor executor;
    /** Knows where it was started. The JVM notes that quickly; what takes long, reading the notes, waits for a failure. */
    private final Throwable caller = new Throwable();
    private volatile long operation;
    private volatile boolean isAnswered;
    /** The answer, until somebody takes it: whoever completes the future, or has no use for what it brings. */
    private final AtomicReference<@Nullable Completion> answer = new AtomicReference<>();

    Operation(Executor executor, Function<Completion, T> result) {
        this.executor = executor;
        this.result = result;
        whenComplete(this::ended);
    }

    /** Starts it. What is wrong from the start fails the future, like everything else. */
    Operation<T> start(Runnable start) {
        try {
            start.run();
        } catch (LeaseholdException error) {
            completeExceptionally(error);
        }
        return this;
    }

    @Override
    public void started(long operation) {
        this.operation = operation;
    }

    @Override
    public void take(Completion completion) {
        if (!isAnswered) {
            answer.set(completion);
            isAnswered = true;
        }
        if (isDone()) {
            discardAnswer();
        } else {
            executor.execute(this::answer);
        }
    }

    private void answer() {
        Completion completion = answer.getAndSet(null);
        if (completion == null) {
            return;
        }
        T value;
        try {
            if (completion.isFailure()) {
                completeExceptionally(failure(completion));
                return;
            }
            value = result.apply(completion);
        } catch (Throwable thrown) {
            completeExceptionally(thrown);
            return;
        }
        if (!complete(value) && value instanceof Guard guard) {
            guard.discard();
        }
    }

    private RuntimeException failure(Completion completion) {
        RuntimeException failure = completion.failure();
        failure.setStackTrace(Arrays.stream(caller.getStackTrace())
                .dropWhile(Operation::isOurs)
                .toArray(StackTraceElement[]::new));
        return failure;
    }

    /** The future is over before it had its answer: nobody wants what the operation brought, or may bring. */
    private void ended(@Nullable T value, @Nullable Throwable error) {
        if (isAnswered) {
            discardAnswer();
        } else {
            Native.cancel(operation);
        }
    }

    private void discardAnswer() {
        Completion unwanted = answer.getAndSet(null);
        if (unwanted != null && unwanted.kind() == Completion.GUARD) {
            Native.guardFree(unwanted.a());
        }
    }

    /** What is derived from this future is a plain one: cancelling it cancels nothing else, as everywhere. */
    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new CompletableFuture<>();
    }

    private static boolean isOurs(StackTraceElement frame) {
        String name = frame.getClassName();
        return name.startsWith("java.") || name.substring(0, Math.max(0, name.lastIndexOf('.'))).equals("io.leasehold");
    }
}

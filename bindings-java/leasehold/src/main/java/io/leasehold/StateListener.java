package io.leasehold;

import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** A listener to the state of a client's sessions. */
final class StateListener implements Receiver, Subscription {
    private final Consumer<SessionState> listener;
    private final Executor executor;
    private volatile long operation;

    StateListener(Consumer<SessionState> listener, Executor executor) {
        this.listener = listener;
        this.executor = executor;
    }

    @Override
    public void started(long operation) {
        this.operation = operation;
    }

    @Override
    public void take(Completion completion) {
        if (!completion.last()) {
            SessionState state = SessionState.of(completion.a(), completion.b());
            executor.execute(() -> listener.accept(state));
        }
    }

    @Override
    public void close() {
        Native.cancel(operation);
    }
}

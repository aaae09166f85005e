package io.leasehold;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** An observer of an election. Its future is done with the first report, or with why there is none. */
final class Observation implements Receiver, Subscription {
    private final Consumer<Observed> listener;
    private final Executor inOrder;
    private final CompletableFuture<Subscription> begun = new CompletableFuture<>();
    private volatile long operation;
    private volatile boolean isClosed;

    Observation(Consumer<Observed> listener, Executor inOrder) {
        this.listener = listener;
        this.inOrder = inOrder;
        begun.whenComplete((self, error) -> {
            if (error != null) {
                // Whoever ends the future first has no use for it.
                close();
            }
        });
    }

    CompletableFuture<Subscription> begun() {
        return begun;
    }

    @Override
    public void started(long operation) {
        this.operation = operation;
        if (isClosed) {
            Native.cancel(operation);
        }
    }

    @Override
    public void take(Completion completion) {
        inOrder.execute(() -> {
            if (completion.isFailure()) {
                begun.completeExceptionally(completion.failure());
            } else if (completion.kind() == Completion.OBSERVED) {
                begun.complete(this);
                if (!isClosed) {
                    listener.accept(new Observed(completion.leader(), completion.isAfterGap()));
                }
            }
        });
    }

    @Override
    public void close() {
        isClosed = true;
        if (operation != 0) {
            Native.cancel(operation);
        }
    }
}

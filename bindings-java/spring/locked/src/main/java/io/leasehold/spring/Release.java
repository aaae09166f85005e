package io.leasehold.spring;

import io.leasehold.DeadlineExceededException;
import io.leasehold.Guard;
import io.leasehold.NotHeldException;
import io.leasehold.UnavailableException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/** The end of a guard that no thread waits for: like {@link Guard#close()}, it complains of a loss only. */
final class Release {
    private Release() {}

    static CompletableFuture<@Nullable Void> of(Guard guard) {
        CompletableFuture<@Nullable Void> released = new CompletableFuture<>();
        guard.releaseAsync().whenComplete((done, error) -> {
            Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
            if (cause == null
                    || cause instanceof NotHeldException
                    || cause instanceof UnavailableException
                    || cause instanceof DeadlineExceededException) {
                released.complete(null);
            } else {
                released.completeExceptionally(cause);
            }
        });
        return released;
    }
}

package io.leasehold.shedlock;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Keeps locks whose tasks are done for the rest of their {@code lockAtLeastFor}: by a client of its own, which outlives the other
 * one's close, and leases that are not renewed, so that the locks outlive this process and free themselves.
 */
final class Parking {
    private static final System.Logger LOGGER = System.getLogger(Parking.class.getName());

    /** Of an identity, in bytes. */
    private static final int LONGEST = 256;

    private final LeaseholdClient like;
    private @Nullable LeaseholdClient client;
    /** Locks that are kept, or about to be. Without any the client is closed. */
    private int parked;

    Parking(LeaseholdClient like) {
        this.like = like;
    }

    /** Queues behind the owner of a lock, to have it next for the rest of its time. False if that cannot be. */
    boolean park(String name, Duration rest) {
        LeaseholdClient parking = enter();
        LeaseholdLock lock = parking.lock(name)
                .withTtl(LeaseholdLockProvider.atLeastTwoSeconds(rest))
                .withRenew(false);
        CompletableFuture<Guard> next = lock.acquireAsync();
        next.whenComplete((guard, error) -> {
            if (guard == null) {
                leave();
                return;
            }
            // Exact while we live.
            CompletableFuture.delayedExecutor(rest.toMillis(), TimeUnit.MILLISECONDS).execute(() -> end(guard));
        });
        try {
            // It must stand behind the owner before that one leaves.
            while (!next.isDone()
                    && lock.queue().stream().noneMatch(each -> parking.identity().equals(each.identity()))) {
                Thread.onSpinWait();
            }
            return !next.isCompletedExceptionally();
        } catch (LeaseholdException error) {
            next.cancel(true);
            LOGGER.log(System.Logger.Level.WARNING, "the lock of the task is kept for lockAtLeastFor by this process only", error);
            return false;
        }
    }

    private void end(Guard guard) {
        guard.releaseAsync().whenComplete((done, error) -> leave());
    }

    private synchronized LeaseholdClient enter() {
        LeaseholdClient open = client;
        if (open == null) {
            open = like.toBuilder().identity(identity(like.identity())).build();
            client = open;
        }
        parked++;
        return open;
    }

    /** Tells who looks at the queue what this is. */
    private static String identity(String of) {
        String told = "lockAtLeastFor of " + of;
        return told.getBytes(StandardCharsets.UTF_8).length <= LONGEST ? told : "lockAtLeastFor";
    }

    private synchronized void leave() {
        parked--;
        LeaseholdClient open = client;
        if (parked == 0 && open != null) {
            client = null;
            open.closeAsync();
        }
    }
}

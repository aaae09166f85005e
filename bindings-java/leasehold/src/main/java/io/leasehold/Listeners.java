package io.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** The listeners of a client, and what they are told about each acquire and each hold. Costs next to nothing without any. */
final class Listeners {
    /** Holds that somebody listens to, and whose loss nobody waits for yet. */
    private static final Set<Hold> UNWATCHED = ConcurrentHashMap.newKeySet();

    private final List<LockListener> all;

    Listeners(List<LockListener> all) {
        this.all = List.copyOf(all);
    }

    boolean isEmpty() {
        return all.isEmpty();
    }

    void failed(String name, long begun, ErrorCode code) {
        tell(listener -> listener.failed(name, since(begun), code));
    }

    /**
     * Tells of a lock that was acquired. The result tells of its end: when it is released, and when it is lost, if somebody
     * listens to that. Most holds are over soon, and their release tells of a loss; only those that last are watched.
     */
    Hold acquired(LeaseholdClient client, long handle, String name, long begun) {
        Hold hold = new Hold(this, client, handle, name, System.nanoTime());
        if (!isEmpty()) {
            UNWATCHED.add(hold);
            tell(listener -> listener.acquired(name, since(begun)));
        }
        return hold;
    }

    /** Watches the holds that have lasted for a moment. */
    static void watchThoseThatLast() {
        for (Hold hold : UNWATCHED) {
            if (UNWATCHED.remove(hold)) {
                CompletableFuture<LostReason> lost = new CompletableFuture<>();
                Guard.watch(hold.client, hold.handle, lost);
                lost.thenAccept(hold::ended);
            }
        }
    }

    private void tell(Consumer<LockListener> event) {
        for (LockListener listener : all) {
            try {
                event.accept(listener);
            } catch (Throwable thrown) {
                // An error, too: the lock that this tells of is held, and its owner must get it.
                Logs.listenerFailed(thrown);
            }
        }
    }

    private static Duration since(long begun) {
        return Duration.ofNanos(System.nanoTime() - begun);
    }

    /** One hold, until it is released or lost. Does not keep its guard alive: a forgotten one is to be noticed. */
    static final class Hold {
        private final Listeners listeners;
        private final LeaseholdClient client;
        private final long handle;
        private final String name;
        private final long begun;
        private final AtomicBoolean isEnded = new AtomicBoolean();

        private Hold(Listeners listeners, LeaseholdClient client, long handle, String name, long begun) {
            this.listeners = listeners;
            this.client = client;
            this.handle = handle;
            this.name = name;
            this.begun = begun;
        }

        void ended(@Nullable LostReason lost) {
            if (isEnded.compareAndSet(false, true) && !listeners.isEmpty()) {
                UNWATCHED.remove(this);
                listeners.tell(listener -> listener.ended(name, since(begun), lost));
            }
        }
    }
}

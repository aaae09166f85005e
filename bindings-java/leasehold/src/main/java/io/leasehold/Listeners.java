package io.leasehold;

import java.time.Duration;
import java.util.ArrayList;
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

    private static final Attempt UNHEARD = new Attempt(List.of(), "");

    private final List<LockListener> all;

    Listeners(List<LockListener> all) {
        this.all = List.copyOf(all);
    }

    /** Tells of an acquire that begins. The result tells what becomes of it, once. */
    Attempt acquiring(Acquire acquire) {
        if (all.isEmpty()) {
            return UNHEARD;
        }
        String name = acquire.name();
        List<LockListener> told = new ArrayList<>(all);
        tell(all, listener -> {
            LockListener own = listener.acquiring(name);
            if (own != null) {
                told.add(own);
            }
        });
        return new Attempt(told, name);
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

    private static void tell(List<LockListener> told, Consumer<LockListener> event) {
        for (LockListener listener : told) {
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

    /** One acquire, until it has a lock or has failed: it is told once what became of it, whoever else ends its future. */
    static final class Attempt {
        private final List<LockListener> told;
        private final String name;
        private final long begun = System.nanoTime();
        private final AtomicBoolean isSettled = new AtomicBoolean();

        private Attempt(List<LockListener> told, String name) {
            this.told = told;
            this.name = name;
        }

        boolean isHeard() {
            return !told.isEmpty();
        }

        void failed(@Nullable Throwable thrown) {
            failed(thrown instanceof LeaseholdException failure ? failure.code() : ErrorCode.CANCELLED);
        }

        void failed(ErrorCode code) {
            if (isHeard() && isSettled.compareAndSet(false, true)) {
                tell(told, listener -> listener.failed(name, since(begun), code));
            }
        }

        /**
         * Tells of a lock that was acquired. The result tells of its end: when it is released, and when it is lost, if somebody
         * listens to that. Most holds are over soon, and their release tells of a loss; only those that last are watched.
         */
        Hold acquired(LeaseholdClient client, long handle) {
            // What was won for a future that had ended before is released at once, and no hold of anybody's.
            boolean isTold = isHeard() && isSettled.compareAndSet(false, true);
            Hold hold = new Hold(isTold ? told : List.of(), client, handle, name);
            if (isTold) {
                UNWATCHED.add(hold);
                tell(told, listener -> listener.acquired(name, since(begun)));
            }
            return hold;
        }
    }

    /** One hold, until it is released or lost. Does not keep its guard alive: a forgotten one is to be noticed. */
    static final class Hold {
        private final List<LockListener> told;
        private final LeaseholdClient client;
        private final long handle;
        private final String name;
        private final long begun = System.nanoTime();
        private final AtomicBoolean isEnded = new AtomicBoolean();

        private Hold(List<LockListener> told, LeaseholdClient client, long handle, String name) {
            this.told = told;
            this.client = client;
            this.handle = handle;
            this.name = name;
        }

        void ended(@Nullable LostReason lost) {
            if (!told.isEmpty() && isEnded.compareAndSet(false, true)) {
                UNWATCHED.remove(this);
                tell(told, listener -> listener.ended(name, since(begun), lost));
            }
        }
    }
}

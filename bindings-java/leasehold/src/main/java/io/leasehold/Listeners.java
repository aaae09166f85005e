package io.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** The listeners of a client, and what they are told about each acquire and each hold. Costs next to nothing without any. */
final class Listeners {
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

    /** Tells of a lock that was acquired. The result tells of its end. */
    Hold acquired(String name, long begun) {
        tell(listener -> listener.acquired(name, since(begun)));
        return new Hold(this, name, System.nanoTime());
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
        private final String name;
        private final long begun;
        private final AtomicBoolean isEnded = new AtomicBoolean();

        private Hold(Listeners listeners, String name, long begun) {
            this.listeners = listeners;
            this.name = name;
            this.begun = begun;
        }

        void ended(@Nullable LostReason lost) {
            if (isEnded.compareAndSet(false, true)) {
                listeners.tell(listener -> listener.ended(name, since(begun), lost));
            }
        }
    }
}

package io.leasehold;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * What threads hold through {@link LeaseholdLock#lock}, for one client: the calling thread's guard of a name, and how often it
 * has to unlock. Each thread touches its own entries only. There is no class of keys: Java 17 keeps the class of a record whose
 * {@code equals} was used, and with it an application that is undeployed.
 */
final class ThreadHolds {
    private static final class Hold {
        final Guard guard;
        int count = 1;

        Hold(Guard guard) {
            this.guard = guard;
        }
    }

    /** By thread and name, so that it does not matter which lock object is used. */
    private final Map<Thread, Map<String, Hold>> holds = new ConcurrentHashMap<>();

    /** Whether no thread holds anything. */
    boolean isEmpty() {
        return holds.isEmpty();
    }

    Optional<Guard> guard(String name) {
        Hold hold = hold(name);
        return hold == null ? Optional.empty() : Optional.of(hold.guard);
    }

    int count(String name) {
        Hold hold = hold(name);
        return hold == null ? 0 : hold.count;
    }

    /** The thread holds the lock from now on. */
    void enter(String name, Guard guard) {
        holds.computeIfAbsent(Thread.currentThread(), thread -> new HashMap<>()).put(name, new Hold(guard));
    }

    /** Counts one more hold if the thread holds the lock; throws if it has lost it. */
    boolean reenter(String name) {
        Hold hold = hold(name);
        if (hold == null) {
            return false;
        }
        if (!hold.guard.held()) {
            // It is lost, and stays lost: any operation tells why, without asking etcd.
            hold.guard.extend(Duration.ofSeconds(2));
        }
        hold.count++;
        return true;
    }

    /** Counts one hold less; the last one releases the lock. */
    void leave(String name) {
        Hold hold = hold(name);
        if (hold == null) {
            throw new IllegalMonitorStateException("the lock \"" + name + "\" is not held by the thread "
                    + Thread.currentThread().getName() + "; a guard is released with Guard.close()");
        }
        hold.count--;
        if (hold.count == 0) {
            remove(name);
            hold.guard.close();
        }
    }

    private @Nullable Hold hold(String name) {
        Map<String, Hold> mine = holds.get(Thread.currentThread());
        return mine == null ? null : mine.get(name);
    }

    private void remove(String name) {
        holds.computeIfPresent(Thread.currentThread(), (thread, mine) -> {
            mine.remove(name);
            return mine.isEmpty() ? null : mine;
        });
    }
}

package io.leasehold;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * What threads hold through {@link LeaseholdLock#lock}, for one client: the calling thread's guard of each name, and how often it
 * has to unlock. Each thread touches its own entries only. There is no class of keys: Java 17 keeps the class of a record whose
 * {@code equals} was used, and with it an application that is undeployed.
 *
 * <p>An exclusive hold serves whatever the thread asks of that name, and lasts until all of it is unlocked. What a hold does not
 * serve would wait for itself: an exclusive claim inside a shared one, or one of several names of which only some are held.
 */
final class ThreadHolds {
    /** One guard, of one name or of several. */
    private static final class Hold {
        final Guard guard;
        /** How often it was entered, all names together. */
        int entered;

        Hold(Guard guard) {
            this.guard = guard;
        }
    }

    /** What a hold is for one of its names. */
    private static final class Entry {
        final Hold hold;
        final Claim claim;
        /** How often it was entered by each kind of claim. */
        final int[] counts = new int[Claim.Kind.values().length];

        Entry(Hold hold, Claim claim) {
            this.hold = hold;
            this.claim = claim;
        }

        int count(Claim of) {
            return counts[of.kind().ordinal()];
        }

        void change(Claim of, int by) {
            counts[of.kind().ordinal()] += by;
            hold.entered += by;
        }
    }

    /** Those of all clients that somebody still has. */
    private static final Set<ThreadHolds> ALL = Collections.newSetFromMap(new WeakHashMap<>());

    /** By thread and name, so that it does not matter which lock object is used. */
    private final Map<Thread, Map<String, Entry>> holds = new ConcurrentHashMap<>();

    ThreadHolds() {
        synchronized (ALL) {
            ALL.add(this);
        }
    }

    /** Whether no thread holds anything. */
    boolean isEmpty() {
        return holds.isEmpty();
    }

    /** The guard of what the thread holds by these claims. */
    Optional<Guard> guard(List<Claim> claims) {
        Entry entry = entry(claims.get(0));
        return entry == null || count(claims) == 0 ? Optional.empty() : Optional.of(entry.hold.guard);
    }

    /** How often the thread has entered by these claims. */
    int count(List<Claim> claims) {
        int count = Integer.MAX_VALUE;
        for (Claim claim : claims) {
            Entry entry = entry(claim);
            count = Math.min(count, entry == null ? 0 : entry.count(claim));
        }
        return count;
    }

    /** Whether the thread holds any of these names, by whatever claim. */
    boolean isAny(List<Claim> claims) {
        return claims.stream().anyMatch(claim -> entry(claim) != null);
    }

    /** The thread holds the lock from now on. */
    void enter(List<Claim> claims, Guard guard) {
        Map<String, Entry> mine = holds.computeIfAbsent(Thread.currentThread(), thread -> new HashMap<>());
        Hold hold = new Hold(guard);
        for (Claim claim : claims) {
            Entry entry = new Entry(hold, claim);
            entry.change(claim, 1);
            mine.put(claim.name(), entry);
        }
    }

    /** What the thread's holds are to an acquire. */
    enum Bearing {
        /** Nothing: it holds none of the names. */
        NONE,
        /** They serve it. */
        SERVES,
        /** They are in its way: it would wait for its own thread. */
        BLOCKS
    }

    Bearing bearing(List<Claim> claims) {
        boolean isAny = false;
        boolean isServed = true;
        for (Claim claim : claims) {
            Entry entry = entry(claim);
            isAny |= entry != null;
            isServed &= entry != null && entry.claim.serves(claim);
        }
        return isServed ? Bearing.SERVES : isAny ? Bearing.BLOCKS : Bearing.NONE;
    }

    /** Counts one more hold of what the thread holds; throws if it has lost it. */
    void reenter(List<Claim> claims) {
        for (Claim claim : claims) {
            Entry entry = held(claim);
            if (!entry.hold.guard.held()) {
                // It is lost, and stays lost: any operation tells why, without asking etcd.
                entry.hold.guard.extend(Duration.ofSeconds(2));
                throw HoldLimit.passed(claim.name());
            }
        }
        claims.forEach(claim -> held(claim).change(claim, 1));
    }

    /** Counts one hold less; the last one releases the lock. */
    void leave(List<Claim> claims) {
        for (Claim claim : claims) {
            Entry entry = entry(claim);
            if (entry == null || entry.count(claim) == 0) {
                throw notHeld(claim);
            }
        }
        Set<Hold> left = new HashSet<>();
        for (Claim claim : claims) {
            Entry entry = held(claim);
            entry.change(claim, -1);
            if (entry.hold.entered == 0) {
                left.add(entry.hold);
            }
        }
        left.forEach(this::remove);
        Guards.closeAll(left.stream().map(hold -> hold.guard).toList());
    }

    /** The guard of the thread's one hold, which is the thread's no more. */
    Guard handOver(List<Claim> claims) {
        Hold hold = null;
        for (Claim claim : claims) {
            Entry entry = entry(claim);
            if (entry == null || entry.count(claim) == 0) {
                throw notHeld(claim);
            }
            if (entry.hold.entered != claims.size() || (hold != null && hold != entry.hold)) {
                throw new IllegalMonitorStateException("the thread " + Thread.currentThread().getName() + " has entered the lock \""
                        + claim.name() + "\" more than once; only an outermost hold can be handed over");
            }
            hold = entry.hold;
        }
        if (hold == null) {
            throw new IllegalMonitorStateException("no name");
        }
        remove(hold);
        return hold.guard;
    }

    /** Releases what threads held that have ended, and says so: nobody else can unlock it. */
    static void releaseThoseOfTheDead() {
        List<ThreadHolds> clients;
        synchronized (ALL) {
            clients = new ArrayList<>(ALL);
        }
        clients.forEach(ThreadHolds::releaseMineOfTheDead);
    }

    private void releaseMineOfTheDead() {
        for (Thread thread : holds.keySet()) {
            if (!thread.isAlive()) {
                Map<String, Entry> left = holds.remove(thread);
                if (left != null) {
                    Set<Hold> held = new HashSet<>();
                    left.forEach((name, entry) -> {
                        Logs.warn(
                                "the thread {0} ended without unlock() of the lock {1}, which is released now; unlock in a finally"
                                        + " block",
                                thread.getName(),
                                name);
                        held.add(entry.hold);
                    });
                    held.forEach(hold -> hold.guard.discard());
                }
            }
        }
    }

    private static IllegalMonitorStateException notHeld(Claim claim) {
        return new IllegalMonitorStateException("the lock \"" + claim.name() + "\" is not held by the thread "
                + Thread.currentThread().getName() + "; a guard is released with Guard.close()");
    }

    private Entry held(Claim claim) {
        Entry entry = entry(claim);
        if (entry == null) {
            throw notHeld(claim);
        }
        return entry;
    }

    private @Nullable Entry entry(Claim claim) {
        Map<String, Entry> mine = holds.get(Thread.currentThread());
        return mine == null ? null : mine.get(claim.name());
    }

    private void remove(Hold hold) {
        holds.computeIfPresent(Thread.currentThread(), (thread, mine) -> {
            Collection<Entry> entries = mine.values();
            entries.removeIf(entry -> entry.hold == hold);
            return mine.isEmpty() ? null : mine;
        });
    }
}

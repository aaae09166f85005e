package io.leasehold.spring;

import io.leasehold.Guard;
import java.util.ArrayDeque;
import java.util.Deque;

/** The lock that the {@link Locked} method around the caller holds: for its fencing token, and to look whether it is still held. */
public final class CurrentLock {
    private static final ThreadLocal<Deque<Guard>> GUARDS = ThreadLocal.withInitial(ArrayDeque::new);

    private CurrentLock() {}

    /**
     * The guard of the innermost {@link Locked} method that this thread is in.
     *
     * @return the guard; it is released by the method's end, not by you
     * @throws IllegalStateException if the thread is in none
     */
    public static Guard guard() {
        Guard guard = GUARDS.get().peek();
        if (guard == null) {
            throw new IllegalStateException("this thread is in no @Locked method; was it called within the same object, or on another"
                    + " thread?");
        }
        return guard;
    }

    /**
     * The fencing token of {@link #guard()}: greater than that of every earlier owner of the lock.
     *
     * @return the token
     * @throws IllegalStateException if the thread is in no {@link Locked} method
     */
    public static long token() {
        return guard().token();
    }

    static void enter(Guard guard) {
        GUARDS.get().push(guard);
    }

    static void leave() {
        Deque<Guard> guards = GUARDS.get();
        guards.pop();
        if (guards.isEmpty()) {
            GUARDS.remove();
        }
    }
}

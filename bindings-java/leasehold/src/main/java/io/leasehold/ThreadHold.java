package io.leasehold;

/** What one thread holds through {@link LeaseholdLock#lock}: a guard, and how often. Only that thread touches it. */
final class ThreadHold {
    /** Holds are told apart by name and thread, so that it does not matter which lock object is used. */
    record Key(String name, Thread thread) {}

    final Guard guard;
    int count = 1;

    ThreadHold(Guard guard) {
        this.guard = guard;
    }
}

package io.leasehold;

import java.util.List;

/**
 * What an acquire claims of a name.
 *
 * @param name the name of the lock
 * @param kind how much of it
 * @param permits how many permits, of a semaphore; 0 otherwise
 * @param limit how many there are, of a semaphore; 0 otherwise
 */
record Claim(String name, Kind kind, int permits, int limit) {
    /** In the order of the native library. */
    enum Kind {
        EXCLUSIVE,
        SHARED,
        PERMITS
    }

    /** Numbers of a claim, as the native library takes them. */
    static final int NUMBERS = 3;

    static Claim exclusive(String name) {
        return new Claim(name, Kind.EXCLUSIVE, 0, 0);
    }

    static Claim shared(String name) {
        return new Claim(name, Kind.SHARED, 0, 0);
    }

    static Claim permits(String name, int permits, int limit) {
        return new Claim(name, Kind.PERMITS, permits, limit);
    }

    /** Whether both claim the same of the same names, in the same order; by hand, for the reason that {@link #serves} has. */
    static boolean areSame(List<Claim> one, List<Claim> other) {
        if (one.size() != other.size()) {
            return false;
        }
        for (int index = 0; index < one.size(); index++) {
            Claim claim = one.get(index);
            Claim that = other.get(index);
            if (!claim.name.equals(that.name)
                    || claim.kind != that.kind
                    || claim.permits != that.permits
                    || claim.limit != that.limit) {
                return false;
            }
        }
        return true;
    }

    /** Whether who has this has that, too. Compares by hand: Java 17 keeps the class of a record whose {@code equals} was used. */
    boolean serves(Claim other) {
        return kind == Kind.EXCLUSIVE || (kind == other.kind && permits == other.permits && limit == other.limit);
    }
}

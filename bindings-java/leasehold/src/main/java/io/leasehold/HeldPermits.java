package io.leasehold;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** What a client holds through {@link LeaseholdSemaphore#acquire}: the guards of each name, until somebody releases them. */
final class HeldPermits {
    /** No record: Java 17 keeps the class of one whose {@code equals} was used, and with it an application that is undeployed. */
    private static final class Held {
        final int permits;
        final Guard guard;

        Held(int permits, Guard guard) {
            this.permits = permits;
            this.guard = guard;
        }
    }

    private final Map<String, List<Held>> held = new HashMap<>();

    synchronized void add(String name, int permits, Guard guard) {
        held.computeIfAbsent(name, each -> new ArrayList<>()).add(new Held(permits, guard));
    }

    /** Takes out guards that hold so many permits together: of one acquire if there is one, of the smallest ones otherwise. */
    synchronized List<Guard> take(String name, int permits) {
        List<Held> mine = held.getOrDefault(name, List.of());
        List<Held> chosen = mine.stream().filter(each -> each.permits == permits).limit(1).toList();
        if (chosen.isEmpty()) {
            chosen = smallest(mine, permits);
        }
        List<Held> left = new ArrayList<>(mine);
        chosen.forEach(left::remove);
        if (left.isEmpty()) {
            held.remove(name);
        } else {
            held.put(name, left);
        }
        return chosen.stream().map(each -> each.guard).toList();
    }

    private static List<Held> smallest(List<Held> mine, int permits) {
        List<Held> chosen = new ArrayList<>();
        int missing = permits;
        Iterator<Held> ascending =
                mine.stream().sorted(Comparator.comparingInt((Held each) -> each.permits)).iterator();
        while (missing > 0 && ascending.hasNext()) {
            Held next = ascending.next();
            if (next.permits <= missing) {
                chosen.add(next);
                missing -= next.permits;
            }
        }
        if (missing > 0) {
            throw new IllegalMonitorStateException(permits + " permits cannot be released: this client holds "
                    + mine.stream().map(each -> Integer.toString(each.permits)).toList()
                    + ", and those that were acquired together are released together");
        }
        return chosen;
    }
}

package io.leasehold.samples;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * The classic: several contenders, each with a client of its own, hold one lock in turn. In the copied version each waiter's
 * lease runs while it waits, so the last one of five may find its lease gone when its turn comes. Here a waiter is renewed, too.
 */
final class Contenders {
    private Contenders() {}

    private record Turn(String who, long token, boolean wasHeld) {}

    static void play(String endpoint, int count, int ttlSeconds, int holdSeconds) throws InterruptedException {
        System.out.printf(
                "%d contenders, TTL %d s, each holds %d s: the last waits %d s%n",
                count, ttlSeconds, holdSeconds, (count - 1) * holdSeconds);
        long begun = System.nanoTime();
        List<Turn> turns = new CopyOnWriteArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 1; number <= count; number++) {
            String who = "contender-" + number;
            threads.add(new Thread(() -> turns.add(contend(endpoint, who, ttlSeconds, holdSeconds, begun)), who));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        Samples.check(turns.size() == count, "everybody had a turn");
        for (int index = 0; index < count; index++) {
            Samples.check(turns.get(index).wasHeld, turns.get(index).who + " held to its end");
            Samples.check(
                    index == 0 || turns.get(index - 1).token < turns.get(index).token, "the revisions ascend: " + turns);
        }
        System.out.println("ok: " + count + " turns, revisions ascending\n");
    }

    private static Turn contend(String endpoint, String who, int ttlSeconds, int holdSeconds, long begun) {
        Duration ttl = Duration.ofSeconds(ttlSeconds);
        try (LeaseholdClient client = LeaseholdClient.builder(endpoint).ttl(ttl).identity(who).build()) {
            try (Guard guard = client.lock("/lock/classic").acquire()) {
                System.out.printf("%6.1f s  %s holds, revision %d%n", seconds(begun), who, guard.token());
                // The work that the lock is for.
                Thread.sleep(Duration.ofSeconds(holdSeconds).toMillis());
                return new Turn(who, guard.token(), guard.held());
            }
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }

    private static double seconds(long begun) {
        return (System.nanoTime() - begun) / 1e9;
    }
}

package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Giving up within the time that a request takes, in each of three ways, again and again: nothing may be left in etcd. */
final class GivingUpTest {
    private static final int TIMES = 300;

    private final LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final LeaseholdClient observer = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final String name = Etcd.name();
    private final LeaseholdLock lock = client.lock(name);
    private final Random random = new Random(8);

    @AfterEach
    void close() {
        client.close();
        observer.close();
    }

    private long pause() {
        return random.nextInt(3_000_001);
    }

    private void nothingIsLeft(int won) throws InterruptedException {
        System.out.println("gave up " + TIMES + " times, won " + won + " of them");
        Etcd.until("no key is left", () -> observer.lock(name).queue().isEmpty());
        assertTrue(client.threadHolds().isEmpty());
        assertEquals(0, Native.live()[1], "no guard is left");
    }

    @Test
    void byInterrupt() throws Exception {
        AtomicInteger won = new AtomicInteger();
        for (int time = 0; time < TIMES; time++) {
            Thread thread = new Thread(() -> {
                try {
                    lock.lockInterruptibly();
                    won.incrementAndGet();
                    lock.unlock();
                } catch (InterruptedException expected) {
                    // Given up.
                }
            });
            thread.start();
            LockSupport.parkNanos(pause());
            thread.interrupt();
            thread.join(30_000);
        }
        nothingIsLeft(won.get());
    }

    @Test
    void byTimeLimit() throws Exception {
        try (Guard held = observer.lock(name).acquire()) {
            assertTrue(held.held());
            for (int time = 0; time < TIMES; time++) {
                assertTrue(!lock.tryLock(pause(), TimeUnit.NANOSECONDS));
            }
        }
        int won = 0;
        for (int time = 0; time < TIMES; time++) {
            if (lock.tryLock(pause(), TimeUnit.NANOSECONDS)) {
                won++;
                lock.unlock();
            }
        }
        nothingIsLeft(won);
    }

    @Test
    void byCancel() throws Exception {
        int won = 0;
        for (int time = 0; time < TIMES; time++) {
            CompletableFuture<Guard> future = lock.acquireAsync();
            LockSupport.parkNanos(pause());
            if (!future.cancel(true) && !future.isCompletedExceptionally()) {
                won++;
                future.join().close();
            }
        }
        nothingIsLeft(won);
    }

    @Test
    void byTimeLimitOfTheFuture() throws Exception {
        int won = 0;
        for (int time = 0; time < TIMES; time++) {
            CompletableFuture<Guard> future = lock.acquireAsync().orTimeout(pause(), TimeUnit.NANOSECONDS);
            Guard guard = future.exceptionally(error -> null).get(30, TimeUnit.SECONDS);
            if (guard != null) {
                won++;
                guard.close();
            }
        }
        nothingIsLeft(won);
        lock.acquire(Duration.ofSeconds(10)).close();
    }
}

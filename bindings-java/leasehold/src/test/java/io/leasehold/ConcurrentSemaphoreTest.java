package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * What the JDK's own tests ask of {@code Semaphore}, as far as it makes sense for permits of many processes, in words of our own.
 * docs/java-compatibility.md has the table: which case is which test here, and which is none.
 */
final class ConcurrentSemaphoreTest {
    private final LeaseholdClient client = LeaseholdClient.connect("memory://concurrent");
    private final String name = Etcd.name();
    private final LeaseholdSemaphore semaphore = client.semaphore(name, 3);
    private final Contenders contenders = new Contenders(client.lock(name));

    /** Each way to get permits. */
    private interface Acquiring {
        void acquire(int permits) throws InterruptedException;
    }

    private final List<Acquiring> interruptible = List.of(
            semaphore::acquire, permits -> assertTrue(semaphore.tryAcquire(permits, 2, TimeUnit.MINUTES)));

    private final List<Acquiring> all = List.of(
            interruptible.get(0),
            interruptible.get(1),
            semaphore::acquireUninterruptibly,
            permits -> assertTrue(semaphore.tryAcquire(permits)));

    @AfterEach
    void close() throws Exception {
        contenders.close();
        assertEquals(3, semaphore.availablePermits());
        client.close();
    }

    @Test
    void itHasThePermitsThatItWasGiven() {
        assertEquals(3, semaphore.availablePermits());
        assertEquals(3, semaphore.limit());
        assertTrue(semaphore.toString().contains("limit 3"));
    }

    @Test
    void aTrySucceedsWhileThereAreEnough() throws Exception {
        assertFalse(assertThrows(InvalidArgumentException.class, () -> semaphore.tryAcquire(4)).getMessage().isEmpty());
        assertTrue(semaphore.tryAcquire(2));
        assertTrue(semaphore.tryAcquire());
        assertEquals(0, semaphore.availablePermits());
        assertFalse(semaphore.tryAcquire());
        assertFalse(semaphore.tryAcquire(2));
        assertFalse(semaphore.tryAcquire(20, TimeUnit.MILLISECONDS));
        assertFalse(semaphore.tryAcquire(2, 20, TimeUnit.MILLISECONDS));
        assertEquals(0, semaphore.availablePermits());
        semaphore.release(2);
        semaphore.release();
    }

    @Test
    void whatIsAcquiredComesBackWithItsRelease() throws Exception {
        for (Acquiring each : all) {
            for (int permits = 1; permits <= 3; permits++) {
                each.acquire(permits);
                assertEquals(3 - permits, semaphore.availablePermits());
                semaphore.release(permits);
                assertEquals(3, semaphore.availablePermits());
            }
        }
    }

    @Test
    void aReleaseHereIsAnAcquireThere() throws Exception {
        for (Acquiring each : all.subList(0, 3)) {
            for (int permits : new int[] {1, 3}) {
                semaphore.acquire(3);
                assertFalse(semaphore.hasQueuedThreads());
                Contenders.Running<Object> waiting = contenders.queue(() -> {
                    each.acquire(permits);
                    return null;
                });
                assertTrue(semaphore.hasQueuedThreads());
                semaphore.release(3);
                waiting.await();
                assertEquals(3 - permits, semaphore.availablePermits());
                semaphore.release(permits);
            }
        }
    }

    @Test
    void whatCanBeInterruptedIs() throws Exception {
        for (Acquiring each : interruptible) {
            for (int permits : new int[] {1, 3}) {
                Thread.currentThread().interrupt();
                assertThrows(InterruptedException.class, () -> each.acquire(permits));
                assertFalse(Thread.interrupted());
                semaphore.acquire(3);
                contenders.interrupted(() -> each.acquire(permits));
                semaphore.release(3);
            }
        }
    }

    @Test
    void whatCannotBeInterruptedIsNot() throws Exception {
        for (boolean before : new boolean[] {true, false}) {
            semaphore.acquire(3);
            Contenders.Running<Boolean> waiting = contenders.queue(() -> {
                if (before) {
                    Thread.currentThread().interrupt();
                }
                semaphore.acquireUninterruptibly(2);
                return Thread.interrupted();
            });
            if (!before) {
                waiting.thread().interrupt();
            }
            semaphore.release(3);
            assertEquals(true, waiting.await());
            semaphore.release(2);
        }
    }

    @Test
    void whoWaitsIsCounted() throws Exception {
        semaphore.acquire(3);
        assertEquals(0, semaphore.getQueueLength());
        Contenders.Running<Object> first = contenders.queue(() -> {
            semaphore.acquire();
            return null;
        });
        Contenders.Running<Object> second = contenders.queue(() -> {
            semaphore.acquire();
            return null;
        });
        assertEquals(2, semaphore.getQueueLength());
        first.thread().interrupt();
        Etcd.until("the first one has left", () -> semaphore.getQueueLength() == 1);
        semaphore.release(3);
        second.await();
        assertEquals(0, semaphore.getQueueLength());
        assertFalse(semaphore.hasQueuedThreads());
        semaphore.release();
        assertTrue(first.result().isCompletedExceptionally());
    }

    @Test
    void aLargeRequestIsNotOvertaken() throws Exception {
        semaphore.acquire();
        Contenders.Running<Object> large = contenders.queue(() -> {
            semaphore.acquire(3);
            return null;
        });
        assertEquals(2, semaphore.availablePermits());
        // Not even by a try, which the JDK lets in.
        assertFalse(semaphore.tryAcquire());
        assertFalse(semaphore.tryAcquire(20, TimeUnit.MILLISECONDS));
        Contenders.Running<Object> small = contenders.queue(() -> {
            semaphore.acquire();
            return null;
        });
        semaphore.release();
        large.await();
        assertFalse(small.result().isDone());
        semaphore.release(3);
        small.await();
        semaphore.release();
    }

    @Test
    void nonsenseIsRefused() {
        assertThrows(InvalidArgumentException.class, () -> semaphore.release(-1));
        assertThrows(InvalidArgumentException.class, () -> semaphore.acquire(-1));
        assertThrows(IllegalMonitorStateException.class, semaphore::release);
    }
}

package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * What the JDK's own tests ask of {@code ReentrantLock}, as far as it makes sense for a lock of many processes, in words of our own.
 * docs/java-compatibility.md has the table: which case is which test here, and which is none.
 */
final class ConcurrentLockTest {
    private static final int HOLDS = 20;

    private final LeaseholdClient client = LeaseholdClient.connect("memory://concurrent");
    private final String name = Etcd.name();
    private final LeaseholdLock lock = client.lock(name);
    private final Contenders contenders = new Contenders(client.lock(name));

    @AfterEach
    void close() throws Exception {
        contenders.close();
        assertFalse(lock.isLocked());
        client.close();
    }

    @Test
    void itIsFreeThenHeldThenFree() {
        assertFalse(lock.isLocked());
        assertFalse(lock.isHeldByCurrentThread());
        lock.lock();
        assertTrue(lock.isLocked());
        assertTrue(lock.isHeldByCurrentThread());
        assertEquals(1, lock.getHoldCount());
        lock.unlock();
        assertFalse(lock.isHeldByCurrentThread());
        assertEquals(0, lock.getHoldCount());
    }

    @Test
    void whoDoesNotHoldItCannotUnlockIt() throws Exception {
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        lock.lock();
        contenders.elsewhere(() -> assertThrows(IllegalMonitorStateException.class, lock::unlock));
        lock.unlock();
    }

    @Test
    void aTryTakesWhatIsFreeAndWhatIsOnesOwn() throws Exception {
        assertTrue(lock.tryLock());
        assertTrue(lock.tryLock());
        assertEquals(2, lock.getHoldCount());
        assertEquals(false, contenders.elsewhere(() -> lock.tryLock()));
        assertEquals(false, contenders.elsewhere(() -> lock.tryLock(20, TimeUnit.MILLISECONDS)));
        lock.unlock();
        lock.unlock();
    }

    @Test
    void theQueueShowsWhoWaits() throws Exception {
        lock.lock();
        assertEquals(1, lock.queue().size());
        Contenders.Running<Object> first = contenders.queue(() -> {
            lock.lockInterruptibly();
            lock.unlock();
            return null;
        });
        Contenders.Running<Object> second = contenders.queue(() -> {
            lock.lock();
            lock.unlock();
            return null;
        });
        assertEquals(3, lock.queue().size());
        first.thread().interrupt();
        Etcd.until("the first one has left", () -> lock.queue().size() == 2);
        lock.unlock();
        second.await();
        assertTrue(first.result().isCompletedExceptionally());
    }

    @Test
    void whatCanBeInterruptedIs() throws Exception {
        lock.lock();
        contenders.interrupted(lock::lockInterruptibly);
        contenders.interrupted(() -> lock.tryLock(2, TimeUnit.MINUTES));
        lock.unlock();
        for (Contenders.Interruptible each : new Contenders.Interruptible[] {
            lock::lockInterruptibly, () -> lock.tryLock(1, TimeUnit.MINUTES)
        }) {
            // Before it begins, though it is free.
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, each::run);
            assertFalse(Thread.interrupted());
        }
    }

    @Test
    void whatCannotBeInterruptedIsNot() throws Exception {
        lock.lock();
        Contenders.Running<Boolean> waiting = contenders.queue(() -> {
            lock.lock();
            lock.unlock();
            return Thread.interrupted();
        });
        waiting.thread().interrupt();
        lock.unlock();
        assertEquals(true, waiting.await(), "the interrupt is kept for later");
    }

    @Test
    void holdsAreCounted() {
        for (int hold = 1; hold <= HOLDS; hold++) {
            lock.lock();
            assertEquals(hold, lock.getHoldCount());
        }
        for (int hold = HOLDS; hold > 0; hold--) {
            assertTrue(lock.isLocked());
            lock.unlock();
            assertEquals(hold - 1, lock.getHoldCount());
        }
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void itSaysWhatItIs() {
        assertTrue(lock.toString().contains(name));
        assertEquals(client.lock(name), lock);
        assertEquals(client.lock(name).hashCode(), lock.hashCode());
        assertFalse(lock.equals(client.lock(name + "/other")));
        assertFalse(lock.equals(client.readWriteLock(name).readLock()));
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }
}

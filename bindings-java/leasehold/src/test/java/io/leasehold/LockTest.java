package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The lock as {@link java.util.concurrent.locks.Lock}: its owner is a thread. */
final class LockTest {
    private final LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final String name = Etcd.name();
    private final LeaseholdLock lock = client.lock(name);

    @AfterEach
    void close() {
        client.close();
    }

    /** What another thread sees. */
    private static <T> T elsewhere(java.util.concurrent.Callable<T> work) throws Exception {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(work.call());
            } catch (Throwable thrown) {
                result.completeExceptionally(thrown);
            }
        });
        thread.start();
        return result.get(30, TimeUnit.SECONDS);
    }

    @Test
    void isReentrantForTheThreadWhateverTheLockObject() throws Exception {
        lock.lock();
        client.lock(name).lock();
        assertTrue(lock.tryLock());
        assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
        lock.lockInterruptibly();
        assertEquals(5, lock.getHoldCount());
        assertEquals(1, lock.queue().size());
        assertTrue(lock.isHeldByCurrentThread());
        assertEquals(false, elsewhere(lock::isHeldByCurrentThread));
        assertEquals(0, elsewhere(lock::getHoldCount));
        assertEquals(false, elsewhere(() -> lock.tryLock()));
        for (int holds = 5; holds > 0; holds--) {
            assertTrue(lock.isLocked());
            lock.unlock();
        }
        assertFalse(lock.isLocked());
        assertFalse(lock.isHeldByCurrentThread());
        assertTrue(client.threadHolds().isEmpty());
    }

    @Test
    void belongsToAClientsThread() throws Exception {
        try (LeaseholdClient other = LeaseholdClient.connect(Etcd.shared().endpoint)) {
            lock.lock();
            assertFalse(other.lock(name).tryLock());
            assertThrows(IllegalMonitorStateException.class, () -> other.lock(name).unlock());
            assertThrows(
                    IllegalMonitorStateException.class,
                    () -> {
                        try {
                            elsewhere(() -> {
                                lock.unlock();
                                return null;
                            });
                        } catch (java.util.concurrent.ExecutionException error) {
                            throw error.getCause();
                        }
                    });
            lock.unlock();
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
        }
    }

    @Test
    void waitsForItsTurn() throws Exception {
        lock.lock();
        AtomicBoolean isMine = new AtomicBoolean();
        Thread waiter = new Thread(() -> {
            lock.lock();
            isMine.set(true);
            lock.unlock();
        });
        waiter.start();
        Etcd.until("somebody waits", () -> lock.queue().size() == 2);
        assertFalse(isMine.get());
        lock.unlock();
        waiter.join(10_000);
        assertTrue(isMine.get());
    }

    @Test
    void givesUpInTime() throws Exception {
        try (Guard guard = client.lock(name).acquire()) {
            assertTrue(guard.held());
            long begun = System.nanoTime();
            assertFalse(lock.tryLock(200, TimeUnit.MILLISECONDS));
            assertTrue(Duration.ofNanos(System.nanoTime() - begun).toMillis() >= 200);
            assertFalse(lock.tryLock(0, TimeUnit.SECONDS));
            assertFalse(lock.tryLock(-5, TimeUnit.SECONDS));
            assertEquals(1, lock.queue().size());
        }
    }

    @Test
    void canBeInterrupted() throws Exception {
        try (Guard guard = client.lock(name).acquire()) {
            AtomicBoolean wasInterrupted = new AtomicBoolean();
            Thread waiter = new Thread(() -> {
                try {
                    lock.lockInterruptibly();
                } catch (InterruptedException expected) {
                    wasInterrupted.set(!Thread.currentThread().isInterrupted());
                }
            });
            waiter.start();
            Etcd.until("somebody waits", () -> lock.queue().size() == 2);
            waiter.interrupt();
            waiter.join(10_000);
            assertTrue(wasInterrupted.get());
            assertEquals(1, lock.queue().size());
            assertTrue(guard.held());
        }
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::lockInterruptibly);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::acquire);
        Thread.currentThread().interrupt();
        lock.lock();
        assertTrue(Thread.interrupted(), "lock() keeps the interrupt for others");
        lock.unlock();
    }

    @Test
    void refusesToWaitForItself() throws Exception {
        lock.lock();
        assertThrows(WouldDeadlockException.class, lock::acquire);
        assertThrows(WouldDeadlockException.class, () -> lock.acquire(Duration.ofSeconds(1)));
        assertThrows(WouldDeadlockException.class, () -> client.lock(name).tryAcquire(Duration.ofSeconds(1)));
        assertTrue(lock.tryAcquire().isEmpty());
        lock.unlock();
    }

    @Test
    void canFreeItself() throws Exception {
        assertTrue(lock.tryLock(0, 2, TimeUnit.SECONDS));
        assertTrue(lock.heldByCurrentThread().orElseThrow().remaining().compareTo(Duration.ofSeconds(2)) <= 0);
        Etcd.until("it is free", () -> !lock.isLocked());
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(LockLostException.class, lock::lock);
        assertEquals(LostReason.EXPIRED, assertThrows(LockLostException.class, lock::unlock).reason());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(InvalidArgumentException.class, () -> lock.tryLock(0, 1, TimeUnit.SECONDS));
        assertTrue(lock.tryLock(0, -1, TimeUnit.SECONDS));
        lock.unlock();
    }

    @Test
    void tellsOfALossAndStaysLost() throws Exception {
        lock.lock();
        lock.lock();
        lock.forceRelease(lock.queue().get(0).token());
        Etcd.until("the loss is noticed", () -> !lock.isHeldByCurrentThread());
        assertEquals(
                LostReason.KEY_DELETED,
                assertThrows(LockLostException.class, () -> lock.tryLock(1, TimeUnit.SECONDS)).reason());
        assertEquals(2, lock.getHoldCount());
        lock.unlock();
        assertThrows(LockLostException.class, lock::unlock);
        assertEquals(0, lock.getHoldCount());
        lock.lock();
        lock.unlock();
    }

    @Test
    void hasNoConditions() {
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void throwsWhatIsWrongWhereItIsCalled() {
        for (String bad : new String[] {"", "a\0b", "x".repeat(1025)}) {
            LeaseholdException error = assertThrows(InvalidArgumentException.class, client.lock(bad)::lock);
            assertEquals(ErrorCode.INVALID_ARGUMENT, error.code());
            assertTrue(
                    java.util.Arrays.stream(error.getStackTrace())
                            .anyMatch(frame -> frame.getClassName().equals(LockTest.class.getName())),
                    "the stack trace shows the caller");
        }
        assertInstanceOf(RuntimeException.class, assertThrows(InvalidArgumentException.class, () -> lock.withTtl(Duration.ofSeconds(-1)).lock()));
        client.close();
        assertThrows(ClientClosedException.class, lock::lock);
        assertThrows(ClientClosedException.class, lock::tryLock);
    }
}

package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Shared locks, permits, several names, elections, and the modes of one process. */
final class KindsTest {
    private final LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final LeaseholdClient other = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final String name = Etcd.name();

    @AfterEach
    void close() {
        assertTrue(client.threadHolds().isEmpty());
        client.close();
        other.close();
    }

    private static <T> T elsewhere(java.util.concurrent.Callable<T> call) throws Exception {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(call.call());
            } catch (Throwable thrown) {
                result.completeExceptionally(thrown);
            }
        });
        thread.start();
        return result.get(20, TimeUnit.SECONDS);
    }

    // --- read and write ---

    @Test
    void manyReadOrOneWrites() throws Exception {
        LeaseholdReadWriteLock mine = client.readWriteLock(name);
        LeaseholdReadWriteLock theirs = other.readWriteLock(name);
        mine.readLock().lock();
        assertTrue(theirs.readLock().tryLock());
        assertFalse(theirs.writeLock().tryLock(), "its own reads are in its way");
        assertFalse(elsewhere(() -> other.lock(name).tryLock()));
        assertEquals(List.of("shared", "shared"), client.lock(name).queue().stream().map(Contender::kind).toList());
        assertTrue(client.lock(name).queue().stream().allMatch(Contender::holder));
        mine.readLock().unlock();
        theirs.readLock().unlock();
        theirs.writeLock().lock();
        assertFalse(mine.readLock().tryLock());
        assertTrue(theirs.writeLock().isHeldByCurrentThread());
        assertFalse(theirs.readLock().isHeldByCurrentThread());
        theirs.writeLock().unlock();
        assertFalse(client.lock(name).isLocked());
    }

    @Test
    void readsAreReentrantAndServedByAWrite() throws Exception {
        LeaseholdReadWriteLock lock = client.readWriteLock(name);
        lock.readLock().lock();
        CompletableFuture<Guard> writer = other.lock(name).acquireAsync();
        Etcd.until("a writer waits", () -> client.lock(name).queue().size() == 2);
        // A place of its own would wait behind the writer, for ever.
        lock.readLock().lock();
        assertEquals(2, lock.readLock().getHoldCount());
        assertEquals(2, client.lock(name).queue().size());
        assertThrows(WouldDeadlockException.class, lock.writeLock()::lock);
        assertThrows(WouldDeadlockException.class, () -> lock.writeLock().tryLock(1, TimeUnit.SECONDS));
        assertThrows(WouldDeadlockException.class, () -> lock.readLock().acquire());
        assertThrows(IllegalMonitorStateException.class, lock.writeLock()::unlock);
        lock.readLock().unlock();
        lock.readLock().unlock();
        assertThrows(IllegalMonitorStateException.class, lock.readLock()::unlock);
        writer.get(20, TimeUnit.SECONDS).close();

        lock.writeLock().lock();
        lock.readLock().lock();
        assertEquals(1, client.lock(name).queue().size());
        assertEquals(1, lock.writeLock().getHoldCount());
        assertEquals(1, lock.readLock().getHoldCount());
        lock.writeLock().unlock();
        assertEquals(0, lock.writeLock().getHoldCount());
        assertFalse(other.readWriteLock(name).readLock().tryLock(), "the hold lasts until both are unlocked, as a write");
        lock.writeLock().lock();
        lock.writeLock().unlock();
        lock.readLock().unlock();
        assertFalse(client.lock(name).isLocked());
    }

    // --- permits ---

    @Test
    void aSemaphoreHasSoManyPermits() throws Exception {
        LeaseholdSemaphore semaphore = client.semaphore(name, 3);
        semaphore.acquire(2);
        assertEquals(1, semaphore.availablePermits());
        assertTrue(other.semaphore(name, 3).tryAcquire());
        assertFalse(semaphore.tryAcquire());
        assertFalse(semaphore.tryAcquire(50, TimeUnit.MILLISECONDS));
        assertThrows(IllegalMonitorStateException.class, () -> semaphore.release(1), "two were acquired together");
        assertThrows(IllegalMonitorStateException.class, () -> semaphore.release(3));
        CompletableFuture<Guard> three = client.semaphore(name, 3).permits(3).acquireAsync();
        Etcd.until("it waits", () -> semaphore.getQueueLength() == 1);
        assertTrue(semaphore.hasQueuedThreads());
        // From another thread: permits are the client's.
        elsewhere(() -> {
            client.semaphore(name, 3).release(2);
            return true;
        });
        assertFalse(semaphore.tryAcquire(), "a large request is not overtaken");
        other.semaphore(name, 3).release();
        try (Guard guard = three.get(20, TimeUnit.SECONDS)) {
            assertEquals(0, semaphore.availablePermits());
            assertTrue(guard.held());
        }
        semaphore.acquire();
        semaphore.acquireUninterruptibly();
        semaphore.release(2);
        assertEquals(3, semaphore.availablePermits());
    }

    @Test
    void badNumbersAndOtherLimitsAreRefused() throws Exception {
        assertThrows(InvalidArgumentException.class, () -> client.semaphore(name, 3).acquire(4));
        assertThrows(InvalidArgumentException.class, () -> client.semaphore(name, 3).acquire(0));
        assertThrows(InvalidArgumentException.class, () -> client.semaphore(name, 3).acquire(-1));
        assertThrows(InvalidArgumentException.class, () -> client.semaphore(name, 0).tryAcquire());
        client.semaphore(name, 3).acquire();
        LeaseholdException mismatch =
                assertThrows(LeaseholdException.class, () -> other.semaphore(name, 4).acquire());
        assertEquals(ErrorCode.LIMIT_MISMATCH, mismatch.code());
        assertEquals(ErrorCode.LIMIT_MISMATCH,
                assertThrows(LeaseholdException.class, other.readWriteLock(name).readLock()::lock).code());
        client.semaphore(name, 3).release();
        assertFalse(client.lock(name).isLocked());
    }

    @Test
    void permitsThatWereLostSayAtTheirRelease() throws Exception {
        LeaseholdSemaphore semaphore = client.semaphore(name, 2);
        semaphore.acquire();
        client.lock(name).forceRelease(client.lock(name).queue().get(0).token());
        assertThrows(LockLostException.class, semaphore::release);
        assertThrows(IllegalMonitorStateException.class, semaphore::release);
    }

    // --- elections ---

    @Test
    void aCandidateLeadsAndProclaimsAndResigns() throws Exception {
        LeaseholdElection election = client.election(name);
        assertEquals(Optional.empty(), election.leader());
        List<String> seen = new CopyOnWriteArrayList<>();
        try (Subscription observer = other.election(name).observe(observed ->
                seen.add(observed.leader().map(Leader::text).orElse("nobody")))) {
            assertTrue(observer != null);
            Etcd.until("the first is told", () -> seen.equals(List.of("nobody")));
            Guard first = election.campaign("a");
            assertEquals("a", other.election(name).leader().orElseThrow().text());
            assertEquals(first.token(), election.leaderAsync().get(20, TimeUnit.SECONDS).orElseThrow().token());
            first.proclaim("b");
            CompletableFuture<Guard> second = other.election(name).campaignAsync(Guard.bytes("c"));
            assertThrows(NotAcquiredException.class, () -> election.campaign("d", Duration.ofMillis(50)));
            first.release();
            Guard next = second.get(20, TimeUnit.SECONDS);
            Etcd.until("all is told", () -> seen.equals(List.of("nobody", "a", "b", "c")));
            assertThrows(NotHeldException.class, () -> first.proclaim("e"));
            next.proclaimAsync(Guard.bytes("f")).get(20, TimeUnit.SECONDS);
            client.lock(name).forceRelease(next.token());
            assertThrows(LockLostException.class, () -> next.proclaim("g"));
            assertThrows(LockLostException.class, next::close);
            Etcd.until("the end is told", () -> seen.equals(List.of("nobody", "a", "b", "c", "f", "nobody")));
        }
        try (Guard no = client.lock(name).acquire()) {
            assertThrows(InvalidArgumentException.class, () -> no.proclaim("x"));
        }
    }

    @Test
    void observingEndsAndFailsAsEverythingDoes() throws Exception {
        assertThrows(InvalidArgumentException.class, () -> client.election("").observe(observed -> {}));
        AtomicInteger told = new AtomicInteger();
        Subscription observer = client.election(name).observe(observed -> told.incrementAndGet());
        Etcd.until("the first is told", () -> told.get() == 1);
        observer.close();
        observer.close();
        other.election(name).campaign("x").close();
        assertEquals(1, told.get());
        client.close();
        assertThrows(ClientClosedException.class, () -> client.election(name).observe(observed -> {}));
        assertEquals(ClientClosedException.class,
                client.election(name).observeAsync(observed -> {}).handle((done, error) -> error.getClass()).get());
    }

    // --- several names ---

    @Test
    void allOrNothing() throws Exception {
        LeaseholdLock a = client.lock(name + "/a");
        LeaseholdReadWriteLock b = client.readWriteLock(name + "/b");
        LeaseholdLock all = client.all(a, b.readLock());
        try (Guard guard = all.acquire()) {
            assertEquals(2, guard.keys().size());
            assertEquals(guard.key(), guard.keys().get(0));
            assertTrue(guard.keys().get(1).startsWith(name + "/b/"));
            assertTrue(other.lock(name + "/a").isLocked());
            assertTrue(other.readWriteLock(name + "/b").readLock().tryLock());
            other.readWriteLock(name + "/b").readLock().unlock();
            assertFalse(other.lock(name + "/b").tryLock());
        }
        try (Guard held = other.lock(name + "/b").acquire()) {
            assertFalse(all.tryLock());
            assertFalse(other.lock(name + "/a").isLocked());
            assertTrue(held.held());
        }
        assertThrows(InvalidArgumentException.class, () -> client.all(a, a).lock());
        assertThrows(InvalidArgumentException.class, () -> client.all(a, other.lock("x")));
        assertThrows(InvalidArgumentException.class, all::queue);
    }

    @Test
    void allAreReentrantTogetherAndOneByOne() throws Exception {
        LeaseholdLock a = client.lock(name + "/a");
        LeaseholdLock b = client.lock(name + "/b");
        LeaseholdLock all = client.all(a, b);
        all.lock();
        all.lock();
        a.lock();
        assertEquals(2, all.getHoldCount());
        assertEquals(3, a.getHoldCount());
        assertSame(all.heldByCurrentThread().orElseThrow(), b.heldByCurrentThread().orElseThrow());
        all.unlock();
        all.unlock();
        assertTrue(other.lock(name + "/b").isLocked(), "one guard has both");
        a.unlock();
        assertFalse(other.lock(name + "/a").isLocked());
        assertFalse(other.lock(name + "/b").isLocked());

        a.lock();
        assertThrows(WouldDeadlockException.class, all::lock);
        assertFalse(all.tryLock());
        b.lock();
        all.lock();
        all.unlock();
        a.unlock();
        b.unlock();
        assertFalse(other.lock(name + "/b").isLocked());
    }

    // --- modes, and what is counted ---

    @Test
    void aPlaceIsSharedWithinTheProcess() throws Exception {
        LeaseholdLock lock = client.lock(name).withLocalFirst(1000, Duration.ofSeconds(10));
        Guard first = lock.acquire();
        CompletableFuture<Guard> second = lock.acquireAsync();
        Etcd.until("it waits", () -> !second.isDone());
        first.close();
        Guard next = second.get(20, TimeUnit.SECONDS);
        assertEquals(first.token(), next.token());
        assertEquals(first.sequence() + 1, next.sequence());
        assertThrows(NotHeldException.class, () -> first.put("/x", "y"));
        next.close();
        assertThrows(InvalidArgumentException.class, () -> lock.withLocalFirst(-1, Duration.ofSeconds(1)));
        assertThrows(InvalidArgumentException.class, () -> lock.withLocalFirst(0, Duration.ofSeconds(1)).acquire());

        LeaseholdLock lingering = client.lock(name + "/l").withLinger(Duration.ofSeconds(20));
        Guard before = lingering.acquire();
        before.close();
        assertTrue(other.lock(name + "/l").isLocked());
        try (Guard after = lingering.acquire()) {
            assertEquals(before.token(), after.token());
        }
        try (Guard taken = other.lock(name + "/l").acquire(Duration.ofSeconds(10))) {
            assertTrue(taken.token() > before.token());
        }
    }

    @Test
    void whatHappensIsCounted() throws Exception {
        client.lock(name).acquire().close();
        String text = client.metrics();
        assertTrue(text.endsWith("# EOF\n"), text);
        assertTrue(text.contains("leasehold_acquire"), text);
    }

    // --- shorter ways ---

    @Test
    void aBodyRunsUnderTheLockOrNotAtAll() throws Exception {
        LeaseholdLock lock = client.lock(name);
        assertEquals("ran", lock.withLock(Duration.ofSeconds(5), () -> {
            assertTrue(lock.isHeldByCurrentThread());
            return lock.withLock(Duration.ZERO, () -> "ran");
        }));
        try (Guard guard = other.lock(name).acquire()) {
            assertThrows(NotAcquiredException.class, () -> lock.withLock(Duration.ZERO, () -> {
                throw new AssertionError("it ran");
            }));
            assertTrue(guard.held());
        }
        Exception failed = assertThrows(IllegalArgumentException.class, () -> lock.withLock(Duration.ofSeconds(5), () -> {
            client.lock(name).forceRelease(lock.heldByCurrentThread().orElseThrow().token());
            throw new IllegalArgumentException("no money");
        }));
        assertEquals(1, failed.getSuppressed().length);
        assertThrows(LockLostException.class, () -> lock.withLock(Duration.ofSeconds(5), () -> {
            client.lock(name).forceRelease(lock.heldByCurrentThread().orElseThrow().token());
            return 1;
        }));
        lock.lock(2, TimeUnit.SECONDS);
        assertTrue(lock.heldByCurrentThread().orElseThrow().remaining().compareTo(Duration.ofSeconds(2)) <= 0);
        lock.unlock();
    }

    @Test
    void aThreadCanHandItsLockOver() throws Exception {
        LeaseholdLock lock = client.lock(name);
        lock.lock();
        lock.lock();
        assertThrows(IllegalMonitorStateException.class, lock::handOver);
        lock.unlock();
        Guard guard = lock.handOver();
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::handOver);
        assertTrue(guard.held());
        elsewhere(() -> {
            guard.close();
            return true;
        });
        assertFalse(other.lock(name).isLocked());
    }
}

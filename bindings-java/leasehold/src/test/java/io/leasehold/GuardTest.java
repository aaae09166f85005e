package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Guards: owned by whoever has them. */
final class GuardTest {
    private final LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final LeaseholdLock lock = client.lock(Etcd.name());

    @AfterEach
    void close() {
        client.close();
    }

    private void lose() {
        lock.forceRelease(lock.queue().get(0).token());
    }

    @Test
    void tokensGrow() throws Exception {
        long last = 0;
        for (int round = 0; round < 5; round++) {
            try (Guard guard = lock.acquire(Duration.ofSeconds(5))) {
                assertTrue(guard.token() > last);
                last = guard.token();
                assertEquals(0, guard.sequence());
                assertEquals(lock.name() + "/" + guard.lease(), guard.key().substring(0, guard.key().lastIndexOf('-')));
                assertEquals(guard.token(), lock.queue().get(0).token());
                assertTrue(guard.held());
                assertTrue(guard.remaining().compareTo(Duration.ofSeconds(15)) <= 0);
            }
        }
        assertTrue(lock.queue().isEmpty());
    }

    @Test
    void isReleasedOnceByAnybody() throws Exception {
        Guard guard = lock.acquire();
        CompletableFuture.runAsync(guard::release).get(10, TimeUnit.SECONDS);
        assertFalse(guard.held());
        assertEquals(Duration.ZERO, guard.remaining());
        guard.close();
        assertThrows(NotHeldException.class, guard::release);
        assertThrows(NotHeldException.class, () -> guard.put("/x", "1"));
        assertInstance(NotHeldException.class, guard.releaseAsync());
        assertInstance(NotHeldException.class, guard.extendAsync(Duration.ofSeconds(5)));
        assertFalse(guard.lost().isDone());
        assertEquals(guard.key(), guard.key());
    }

    private static void assertInstance(Class<? extends Throwable> type, CompletableFuture<?> future) {
        ExecutionException error = assertThrows(ExecutionException.class, () -> future.get(10, TimeUnit.SECONDS));
        assertEquals(type, error.getCause().getClass());
    }

    @Test
    void writesOnlyWhileItIsHeld() throws Exception {
        String key = Etcd.name();
        Guard guard = lock.acquire();
        long first = guard.put(key, "one");
        assertTrue(guard.put(key, "two") > first);
        byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
        Committed committed = guard.txn().get(key).put(key + "/more", "x").delete(key).get(key + "/none").commit();
        assertArrayEquals("two".getBytes(StandardCharsets.UTF_8), committed.values().get(0).orElseThrow());
        assertTrue(committed.values().get(1).isEmpty());
        assertEquals(1, committed.deleted());
        assertFalse(guard.delete(key));
        assertTrue(guard.deleteAsync((key + "/more").getBytes(StandardCharsets.UTF_8)).get());
        assertTrue(guard.putAsync(bytes, new byte[] {0, 1, 2}).get() > 0);
        guard.extend(Duration.ofSeconds(20));
        lose();
        assertThrows(LockLostException.class, () -> guard.put(key, "late"));
        assertThrows(LockLostException.class, () -> guard.txn().put(key, "late").commit());
        assertThrows(LockLostException.class, guard::close);
        try (Guard next = lock.acquire()) {
            assertArrayEquals(
                    new byte[] {0, 1, 2}, next.txn().get(bytes).commit().values().get(0).orElseThrow());
            assertTrue(next.delete(bytes));
        }
    }

    @Test
    void tellsOfItsLoss() throws Exception {
        Guard guard = lock.acquire();
        AtomicReference<LostReason> heard = new AtomicReference<>();
        AtomicReference<String> thread = new AtomicReference<>();
        guard.onLost(reason -> {
            thread.set(Thread.currentThread().getName());
            heard.set(reason);
        });
        assertNotSame(guard.lost(), guard.lost());
        guard.lost().cancel(true);
        CompletableFuture<LostReason> lost = guard.lost();
        lose();
        assertEquals(LostReason.KEY_DELETED, lost.get(10, TimeUnit.SECONDS));
        Etcd.until("the listener is told", () -> heard.get() == LostReason.KEY_DELETED);
        assertTrue(thread.get().startsWith("leasehold-callback"), thread.get());
        assertFalse(guard.held());
        assertEquals(LostReason.KEY_DELETED, guard.lost().get(1, TimeUnit.SECONDS));
        assertEquals(LostReason.KEY_DELETED, assertThrows(LockLostException.class, guard::release).reason());
    }

    @Test
    void isLostWithItsClient() throws Exception {
        Guard guard = lock.acquire();
        CompletableFuture<LostReason> lost = guard.lost();
        CompletableFuture<Guard> waiting = lock.acquireAsync();
        client.close();
        assertEquals(LostReason.CLIENT_CLOSED, lost.get(10, TimeUnit.SECONDS));
        assertInstance(ClientClosedException.class, waiting);
        assertEquals(LostReason.CLIENT_CLOSED, assertThrows(LockLostException.class, guard::close).reason());
    }

    @Test
    void raisesALossUnlessTheBodyHasFailed() throws Exception {
        assertThrows(LockLostException.class, () -> {
            try (Guard guard = lock.acquire()) {
                assertTrue(guard.held());
                lose();
            }
        });
        IllegalStateException failure = assertThrows(IllegalStateException.class, () -> {
            try (Guard guard = lock.acquire()) {
                assertTrue(guard.held());
                lose();
                throw new IllegalStateException("the body failed");
            }
        });
        assertEquals(LockLostException.class, failure.getSuppressed()[0].getClass());
    }

    @Test
    void isNotAcquiredInTime() throws Exception {
        try (Guard guard = lock.acquire()) {
            NotAcquiredException error =
                    assertThrows(NotAcquiredException.class, () -> lock.acquire(Duration.ofMillis(100)));
            assertTrue(error.getMessage().contains(guard.key()), error.getMessage());
            assertTrue(lock.tryAcquire().isEmpty());
            assertTrue(lock.tryAcquire(Duration.ofMillis(100)).isEmpty());
            assertTrue(lock.tryAcquireAsync().get().isEmpty());
            assertInstance(NotAcquiredException.class, lock.acquireAsync(Duration.ofMillis(50)));
            assertThrows(InvalidArgumentException.class, () -> lock.acquire(Duration.ofMillis(-1)));
            assertInstance(InvalidArgumentException.class, lock.acquireAsync(Duration.ofMillis(-1)));
            assertEquals(1, lock.queue().size());
        }
        lock.tryAcquire().orElseThrow().close();
        lock.tryAcquireAsync().get().orElseThrow().close();
    }

    @Test
    void whoeverEndsTheFutureGivesUpThePlace() throws Exception {
        try (Guard guard = lock.acquire()) {
            assertTrue(guard.held());
            CompletableFuture<Guard> cancelled = lock.acquireAsync();
            CompletableFuture<Optional<Guard>> tried = lock.tryAcquireAsync(Duration.ofMinutes(1));
            CompletableFuture<Optional<Guard>> inTime = lock.tryAcquireAsync(Duration.ofMinutes(1))
                    .completeOnTimeout(Optional.empty(), 50, TimeUnit.MILLISECONDS);
            CompletableFuture<Guard> late = lock.acquireAsync().orTimeout(50, TimeUnit.MILLISECONDS);
            Etcd.until("they wait", () -> lock.queue().size() >= 3);
            assertTrue(cancelled.cancel(true));
            assertThrows(CancellationException.class, cancelled::join);
            assertTrue(tried.cancel(false));
            assertTrue(inTime.get(10, TimeUnit.SECONDS).isEmpty());
            assertEquals(
                    TimeoutException.class,
                    assertThrows(CompletionException.class, late::join).getCause().getClass());
            Etcd.until("only the holder is left", () -> lock.queue().size() == 1);
        }
    }

    @Test
    void continuationsRunOnTheGivenExecutor() throws Exception {
        ExecutorService executor = Executors.newSingleThreadExecutor(task -> new Thread(task, "mine"));
        try (LeaseholdClient own =
                LeaseholdClient.builder(Etcd.shared().endpoint).executor(executor).build()) {
            CompletableFuture<Guard> waiting;
            CompletableFuture<String> where;
            try (Guard guard = own.lock(lock.name()).acquire()) {
                waiting = own.lock(lock.name()).acquireAsync();
                where = waiting.thenApply(won -> Thread.currentThread().getName());
                assertTrue(guard.held());
            }
            assertEquals("mine", where.get(10, TimeUnit.SECONDS));
            waiting.get().close();
            executor.shutdown();
            // Its answers arrive all the same, and so does a loss.
            Guard held = own.lock(lock.name()).acquireAsync().get(10, TimeUnit.SECONDS);
            CompletableFuture<LostReason> lost = held.lost();
            lose();
            assertEquals(LostReason.KEY_DELETED, lost.get(10, TimeUnit.SECONDS));
            assertThrows(LockLostException.class, held::close);
        }
    }

    @Test
    void listenersAreToldWhateverOneOfThemDoes() throws Exception {
        List<String> heard = new CopyOnWriteArrayList<>();
        LockListener broken = new LockListener() {
            @Override
            public void acquired(String name, Duration waited) {
                throw new NoClassDefFoundError("a class of the listener's");
            }
        };
        LockListener listener = new LockListener() {
            @Override
            public void acquired(String name, Duration waited) {
                heard.add("acquired");
            }

            @Override
            public void failed(String name, Duration waited, ErrorCode code) {
                heard.add("failed " + code);
            }

            @Override
            public void ended(String name, Duration held, @Nullable LostReason lost) {
                heard.add("ended " + lost);
            }
        };
        try (LeaseholdClient own = LeaseholdClient.builder(Etcd.shared().endpoint)
                .listener(broken)
                .listener(listener)
                .build()) {
            LeaseholdLock told = own.lock(lock.name());
            try (Guard guard = told.acquire()) {
                assertTrue(guard.held());
                assertTrue(told.tryAcquire().isEmpty());
                assertTrue(told.tryAcquireAsync().get().isEmpty());
                Etcd.until("the second failure is told", () -> heard.size() == 3);
            }
            Guard guard = told.acquireAsync().get();
            lose();
            Etcd.until("the loss is told", () -> heard.contains("ended KEY_DELETED"));
            assertThrows(LockLostException.class, guard::close);
        }
        assertEquals(
                List.of(
                        "acquired",
                        "failed NOT_ACQUIRED",
                        "failed NOT_ACQUIRED",
                        "ended null",
                        "acquired",
                        "ended KEY_DELETED"),
                heard);
    }

    @Test
    void theQueueShowsWhoStandsInIt() throws Exception {
        try (LeaseholdClient named = LeaseholdClient.builder(List.of(Etcd.shared().endpoint))
                        .identity("a till ☃ 𝄞")
                        .namespace("/shop")
                        .ttl(Duration.ofSeconds(5))
                        .build();
                Guard guard = named.lock("/till").acquire()) {
            Contender holder = named.lock("/till").queue().get(0);
            assertEquals(guard.key(), holder.key());
            assertTrue(holder.key().startsWith("/shop/till/"));
            assertEquals(guard.lease(), holder.lease());
            assertEquals("a till ☃ 𝄞", holder.identity());
            assertEquals("a till ☃ 𝄞", named.identity());
            assertEquals(ProcessHandle.current().pid(), holder.pid());
            assertEquals(LeaseholdClient.version(), holder.version());
            assertFalse(holder.foreign());
            assertTrue(named.lock("/till").isLocked());
            assertThrows(NotHeldException.class, () -> named.lock("/till").forceRelease(1));
            assertEquals(1, named.lock("/till").queueAsync().get().size());
            named.lock("/till").forceReleaseAsync(holder.token()).get();
            assertThrows(LockLostException.class, guard::release);
        }
    }
}

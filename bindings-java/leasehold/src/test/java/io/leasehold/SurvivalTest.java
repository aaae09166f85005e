package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URL;
import java.net.URLClassLoader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Executors, log handlers and threads that fail: results arrive all the same, and nothing stays locked for nobody. */
final class SurvivalTest {
    private static final Logger LOGGER = Logger.getLogger("io.leasehold");

    private final AtomicReference<Handler> installed = new AtomicReference<>();

    @AfterEach
    void removeHandler() {
        Handler handler = installed.get();
        if (handler != null) {
            LOGGER.removeHandler(handler);
        }
        LOGGER.setLevel(null);
    }

    /** Throws what it is told, at every call that it is told. */
    private static final class Failing implements Executor {
        private final Error error;
        private final boolean runsFirst;
        final AtomicInteger left;

        Failing(Error error, int times, boolean runsFirst) {
            this.error = error;
            this.left = new AtomicInteger(times);
            this.runsFirst = runsFirst;
        }

        @Override
        public void execute(Runnable task) {
            if (left.getAndDecrement() > 0) {
                if (runsFirst) {
                    ForkJoinPool.commonPool().execute(task);
                }
                throw error;
            }
            ForkJoinPool.commonPool().execute(task);
        }
    }

    private void onLog(java.util.function.Consumer<LogRecord> publish) {
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                publish.accept(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        handler.setLevel(Level.ALL);
        installed.set(handler);
        LOGGER.addHandler(handler);
    }

    private static void works(LeaseholdClient client) throws Exception {
        CompletableFuture.runAsync(() -> {
                    LeaseholdLock lock = client.lock(Etcd.name());
                    lock.lock();
                    lock.unlock();
                })
                .get(10, TimeUnit.SECONDS);
    }

    /** Those that tests before this one have forgotten go with their collection. */
    private static void noGuardIsLeft() {
        Etcd.until("no guard is left", () -> {
            System.gc();
            return Native.live()[1] == 0;
        });
    }

    @Test
    void anExecutorThatThrowsLosesNoResult() throws Exception {
        for (boolean runsFirst : new boolean[] {false, true}) {
            Failing executor = new Failing(new StackOverflowError("planted"), 1, runsFirst);
            try (LeaseholdClient client =
                    LeaseholdClient.builder("memory://throws").executor(executor).build()) {
                Guard guard = client.lock("/x").acquireAsync().get(10, TimeUnit.SECONDS);
                AtomicInteger told = new AtomicInteger();
                executor.left.set(0);
                CompletableFuture<LostReason> lost = guard.lost();
                guard.onLost(reason -> told.incrementAndGet());
                executor.left.set(3);
                client.lock("/x").forceRelease(guard.token());
                assertEquals(LostReason.KEY_DELETED, lost.get(10, TimeUnit.SECONDS));
                Etcd.until("the listener is told", () -> told.get() == 1);
                assertThrows(LockLostException.class, guard::close);
                works(client);
            }
        }
        noGuardIsLeft();
    }

    @Test
    void anExecutorThatThrowsSilencesNoListener() throws Exception {
        List<SessionState> states = new CopyOnWriteArrayList<>();
        Failing executor = new Failing(new LinkageError("planted"), 1, false);
        try (Etcd etcd = Etcd.start();
                LeaseholdClient client = LeaseholdClient.builder(etcd.endpoint)
                        .ttl(Duration.ofSeconds(3))
                        .executor(executor)
                        .build()) {
            client.onState(states::add);
            Guard guard = client.lock("/x").acquire();
            etcd.tell("freeze 0");
            Etcd.until("the loss is told", () -> states.contains(new SessionState(SessionState.Health.LOST, LostReason.EXPIRED)));
            etcd.tell("thaw 0");
            assertThrows(LockLostException.class, guard::close);
        }
        assertTrue(executor.left.get() <= 0);
    }

    @Test
    void aLogHandlerThatThrowsEndsNothing() throws Exception {
        AtomicInteger asked = new AtomicInteger();
        onLog(record -> {
            asked.incrementAndGet();
            throw new IllegalStateException("planted");
        });
        Failing executor = new Failing(new NoClassDefFoundError("planted"), 1, false);
        LeaseholdClient client =
                LeaseholdClient.builder("memory://handler").executor(executor).build();
        CompletableFuture<Guard> guard = client.lock("/x").acquireAsync();
        guard.get(10, TimeUnit.SECONDS).close();
        works(client);
        Etcd.until("the handler was asked", () -> asked.get() > 0);
        client.closeAsync().get(10, TimeUnit.SECONDS);
    }

    @Test
    void resultsWaitForAThreadWhereThereIsNone() throws Exception {
        ThreadFactory factory = Callbacks.THREADS.getThreadFactory();
        AtomicInteger refused = new AtomicInteger();
        try (LeaseholdClient client = LeaseholdClient.connect("memory://threads")) {
            // Those that are idle would take the task.
            Etcd.until("no thread of callbacks is there", () -> Callbacks.THREADS.getPoolSize() == 0);
            Callbacks.THREADS.setThreadFactory(task -> {
                refused.incrementAndGet();
                throw new OutOfMemoryError("unable to create native thread (planted)");
            });
            CompletableFuture<Guard> guard = client.lock("/x").acquireAsync();
            Etcd.until("a thread was refused", () -> refused.get() > 2);
            works(client);
            assertFalse(guard.isDone());
            Callbacks.THREADS.setThreadFactory(factory);
            guard.get(10, TimeUnit.SECONDS).close();
        } finally {
            Callbacks.THREADS.setThreadFactory(factory);
        }
    }

    @Test
    void aGuardThatNobodyCanGetIsReleased() throws Exception {
        List<Runnable> never = new CopyOnWriteArrayList<>();
        try (LeaseholdClient client =
                        LeaseholdClient.builder("memory://never").executor(never::add).build();
                LeaseholdClient other = LeaseholdClient.connect("memory://never")) {
            CompletableFuture<Guard> guard = client.lock("/x").acquireAsync();
            Etcd.until("the guard is on its way", () -> never.size() == 1);
            assertTrue(guard.cancel(true));
            Etcd.until("the lock is free", () -> !other.lock("/x").isLocked());
            never.get(0).run();
        }
        noGuardIsLeft();
    }

    @Test
    void continuationsSeeTheContextOfWhoeverMadeTheClient() throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try (URLClassLoader first = new URLClassLoader(new URL[0], before);
                URLClassLoader second = new URLClassLoader(new URL[0], before)) {
            for (ClassLoader loader : List.of(first, second, first)) {
                thread.setContextClassLoader(loader);
                try (LeaseholdClient client = LeaseholdClient.connect("memory://context")) {
                    thread.setContextClassLoader(before);
                    AtomicReference<ClassLoader> seen = new AtomicReference<>();
                    Guard guard = client.lock("/x").acquire();
                    guard.onLost(reason -> seen.set(Thread.currentThread().getContextClassLoader()));
                    client.lock("/x").forceRelease(guard.token());
                    Etcd.until("the listener is told", () -> seen.get() != null);
                    assertSame(loader, seen.get());
                }
            }
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    @Test
    void aThreadThatEndsLeavesNoLock() throws Exception {
        List<String> messages = new CopyOnWriteArrayList<>();
        onLog(record -> messages.add(new java.util.logging.SimpleFormatter().formatMessage(record)));
        try (LeaseholdClient client = LeaseholdClient.connect("memory://dead")) {
            Thread thread = new Thread(() -> client.lock("/x").lock(), "forgetful");
            thread.start();
            thread.join(10_000);
            Etcd.until("the lock is free", () -> !client.lock("/x").isLocked());
            assertTrue(client.threadHolds().isEmpty());
            Etcd.until("it is told", () -> messages.stream().anyMatch(it -> it.contains("forgetful") && it.contains("/x")));
        }
    }

    @Test
    void theLevelOfTheLogCanChangeWhileItRuns() throws Exception {
        AtomicInteger records = new AtomicInteger();
        onLog(record -> {
            if (record.getLevel().intValue() < Level.INFO.intValue()) {
                records.incrementAndGet();
            }
        });
        try (Etcd etcd = Etcd.start();
                LeaseholdClient client =
                        LeaseholdClient.builder(etcd.endpoint).ttl(Duration.ofSeconds(3)).build()) {
            Guard guard = client.lock("/x").acquire();
            LOGGER.setLevel(Level.ALL);
            Etcd.until("the library is told", () -> Dispatcher.level() == 5);
            assertEquals(0, records.get());
            etcd.tell("freeze 0");
            Etcd.until("details are told, and the lock is lost", () -> records.get() > 0 && !guard.held());
            etcd.tell("thaw 0");
            assertThrows(LockLostException.class, guard::close);
            LOGGER.setLevel(null);
            Etcd.until("the library is told again", () -> Dispatcher.level() == 3);
        }
    }

    @Test
    void aForgottenGuardThatIsOverIsNoneToComplainAbout() throws Exception {
        List<String> messages = new CopyOnWriteArrayList<>();
        onLog(record -> messages.add(new java.util.logging.SimpleFormatter().formatMessage(record)));
        try (LeaseholdClient client = LeaseholdClient.connect("memory://over")) {
            forget(client);
            noGuardIsLeft();
            assertEquals(List.of(), messages);
        }
    }

    private static void forget(LeaseholdClient client) throws Exception {
        Guard lost = client.lock("/lost").acquire();
        CompletableFuture<LostReason> loss = lost.lost();
        client.lock("/lost").forceRelease(lost.token());
        loss.get(10, TimeUnit.SECONDS);
        client.lock("/short").withTtl(Duration.ofSeconds(2)).withRenew(false).acquire();
    }

    @Test
    void listeningToHoldsCostsNoSecondOperation() throws Exception {
        AtomicReference<LostReason> lost = new AtomicReference<>();
        AtomicInteger ended = new AtomicInteger();
        LockListener listener = new LockListener() {
            @Override
            public void ended(String name, Duration held, LostReason reason) {
                lost.set(reason);
                ended.incrementAndGet();
            }
        };
        try (LeaseholdClient client = LeaseholdClient.builder("memory://listened").listener(listener).build()) {
            long before = Native.live()[2];
            Guard brief = client.lock("/x").acquire();
            assertEquals(before, Native.live()[2], "nothing waits for its loss");
            brief.close();
            assertEquals(1, ended.get());
            assertEquals(null, lost.get());
            // One that lasts is watched: its loss is told, though nobody asks.
            Guard lasting = client.lock("/x").acquire();
            client.lock("/x").forceRelease(lasting.token());
            Etcd.until("the loss is told", () -> lost.get() == LostReason.KEY_DELETED);
            assertThrows(LockLostException.class, lasting::close);
            assertEquals(2, ended.get());
        }
    }

    @Test
    void nullIsRefusedAsEverywhere() throws Exception {
        assertThrows(NullPointerException.class, () -> LeaseholdClient.builder(Arrays.asList("http://a:1", nothing())));
        try (LeaseholdClient client = LeaseholdClient.connect("memory://null");
                Guard guard = client.lock("/x").acquire()) {
            LeaseholdLock lock = client.lock("/y");
            byte[] key = {1};
            assertThrows(NullPointerException.class, () -> client.lock(nothing()));
            assertThrows(NullPointerException.class, () -> lock.acquire(nothing()));
            assertThrows(NullPointerException.class, () -> lock.tryAcquire(nothing()));
            assertThrows(NullPointerException.class, () -> lock.acquireAsync(nothing()));
            assertThrows(NullPointerException.class, () -> lock.tryLock(1, nothing()));
            assertThrows(NullPointerException.class, () -> guard.put(key, nothing()));
            assertThrows(NullPointerException.class, () -> guard.put(nothing(), key));
            assertThrows(NullPointerException.class, () -> guard.putAsync(key, nothing()));
            assertThrows(NullPointerException.class, () -> guard.delete((byte[]) nothing()));
            assertThrows(NullPointerException.class, () -> guard.deleteAsync(nothing()));
            assertThrows(NullPointerException.class, () -> guard.txn().put(key, nothing()));
            assertThrows(NullPointerException.class, () -> guard.txn().get((byte[]) nothing()));
            assertThrows(NullPointerException.class, () -> guard.txn().delete((byte[]) nothing()));
            assertThrows(NullPointerException.class, () -> guard.extend(nothing()));
        }
    }

    @SuppressWarnings({"NullAway", "TypeParameterUnusedInFormals"})
    private static <T> T nothing() {
        return null;
    }
}

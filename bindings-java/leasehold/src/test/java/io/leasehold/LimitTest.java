package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Holds that last for so long at most, and what listeners hear of each acquire. */
final class LimitTest {
    private static final Duration SOON = Duration.ofMillis(300);

    private final String name = Etcd.name();
    private final LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
    private final LeaseholdClient other = LeaseholdClient.connect(Etcd.shared().endpoint);

    @AfterEach
    void close() {
        client.close();
        other.close();
    }

    @Test
    void aHoldEndsAtItsLongestTimeThoughItIsRenewed() throws Exception {
        Guard guard = client.lock(name).withMaxHold(SOON).acquire();
        assertTrue(guard.remaining().compareTo(SOON) <= 0);
        // Whoever waits has it then, long before the TTL.
        Guard next = other.lock(name).acquire(Duration.ofMinutes(2));
        assertFalse(guard.held());
        assertEquals(Duration.ZERO, guard.remaining());
        assertEquals(LostReason.KEY_DELETED, guard.lost().get(1, TimeUnit.MINUTES));
        assertThrows(LockLostException.class, guard::close);
        assertTrue(next.held());
        next.close();
    }

    @Test
    void theThreadThatHoldsForTooLongIsTold() throws Exception {
        LeaseholdLock lock = client.lock(name).withMaxHold(SOON);
        lock.lock();
        Etcd.until("its time is over", () -> !lock.isHeldByCurrentThread());
        assertThrows(LockLostException.class, lock::lock);
        Etcd.until("the key is gone", () -> !other.lock(name).isLocked());
        assertThrows(LockLostException.class, lock::unlock);
    }

    @Test
    void aReleaseInTimeIsAllThereIs() throws Exception {
        LeaseholdLock lock = client.lock(name).withMaxHold(SOON);
        long first = 0;
        while (first == 0) {
            try (Guard guard = lock.acquire()) {
                first = guard.token();
            } catch (LockLostException standstill) {
                // This machine stood still for longer than the hold may last.
                first = 0;
            }
        }
        // The one after it is another hold: what was to end the first one does not end this one.
        try (Guard guard = client.lock(name).acquire()) {
            assertTrue(guard.token() > first);
            CompletableFuture<Object> passed = new CompletableFuture<>().completeOnTimeout(0, 600, TimeUnit.MILLISECONDS);
            passed.get(1, TimeUnit.MINUTES);
            assertTrue(guard.held());
        }
    }

    @Test
    void severalNamesEndTogether() throws Exception {
        Guard guard = client.all(client.lock(name + "/a").withMaxHold(SOON), client.lock(name + "/b")).acquire();
        guard.lost().get(1, TimeUnit.MINUTES);
        for (String each : List.of(name + "/a", name + "/b")) {
            other.lock(each).acquire(Duration.ofMinutes(2)).close();
        }
        assertThrows(LockLostException.class, guard::close);
    }

    @Test
    void whatCannotHaveALongestTimeIsRefused() throws Exception {
        for (Duration nonsense : List.of(Duration.ZERO, Duration.ofSeconds(-1))) {
            assertThrows(InvalidArgumentException.class, () -> client.lock(name).withMaxHold(nonsense).acquire());
        }
        assertThrows(InvalidArgumentException.class, () -> client.lock(name).withMaxHold(SOON).withLocalFirst().acquire());
        assertThrows(
                InvalidArgumentException.class, () -> client.lock(name).withMaxHold(SOON).withLinger(SOON).acquire());
        client.lock(name).withMaxHold(Duration.ofDays(1_000_000)).withLock(Duration.ofMinutes(2), () -> true);
    }

    @Test
    void closingWithoutWaitingComplainsOfALossOnly() throws Exception {
        Guard guard = client.lock(name).acquire();
        guard.closeAsync().get(1, TimeUnit.MINUTES);
        guard.closeAsync().get(1, TimeUnit.MINUTES);
        Guard losing = client.lock(name).acquire();
        other.lock(name).forceRelease(losing.token());
        losing.lost().get(1, TimeUnit.MINUTES);
        CompletableFuture<@Nullable Void> closed = losing.closeAsync();
        Throwable error = assertThrows(java.util.concurrent.ExecutionException.class, () -> closed.get(1, TimeUnit.MINUTES));
        assertEquals(LockLostException.class, error.getCause().getClass());
    }

    // --- what is heard ---

    /** Notes what it hears, and gives each acquire a listener of its own that does so, too. */
    private static final class Notes implements LockListener {
        final List<String> heard = new CopyOnWriteArrayList<>();
        private final @Nullable List<String> own;

        Notes(@Nullable List<String> own) {
            this.own = own;
        }

        @Override
        public @Nullable LockListener acquiring(String name) {
            heard.add("acquiring");
            if (own == null) {
                return null;
            }
            own.add("");
            int index = own.size() - 1;
            return new LockListener() {
                @Override
                public void acquired(String name, Duration waited) {
                    own.set(index, own.get(index) + "acquired ");
                }

                @Override
                public void failed(String name, Duration waited, ErrorCode code) {
                    own.set(index, own.get(index) + code + " ");
                }

                @Override
                public void ended(String name, Duration held, @Nullable LostReason lost) {
                    own.set(index, own.get(index) + (lost == null ? "ended" : lost.toString()));
                }
            };
        }

        @Override
        public void acquired(String name, Duration waited) {
            heard.add("acquired");
        }

        @Override
        public void failed(String name, Duration waited, ErrorCode code) {
            heard.add(code.toString());
        }

        @Override
        public void ended(String name, Duration held, @Nullable LostReason lost) {
            heard.add("ended");
        }
    }

    @Test
    void eachAcquireIsHeardFromItsBeginToItsEnd() throws Exception {
        List<String> own = new CopyOnWriteArrayList<>();
        Notes notes = new Notes(own);
        LockListener failing = new LockListener() {
            @Override
            public LockListener acquiring(String name) {
                throw new IllegalStateException("planted: a listener that fails");
            }
        };
        try (LeaseholdClient heard = LeaseholdClient.builder(Etcd.shared().endpoint)
                .listener(failing)
                .listener(notes)
                .build()) {
            LeaseholdLock lock = heard.lock(name);
            Guard guard = lock.acquire();
            assertEquals(List.of("acquiring", "acquired"), notes.heard);
            assertTrue(lock.tryAcquire().isEmpty());
            CompletableFuture<Guard> waiting = lock.acquireAsync();
            assertEquals("acquiring", notes.heard.get(notes.heard.size() - 1));
            waiting.cancel(false);
            // Refused before anybody is asked, blocking and not.
            assertThrows(InvalidArgumentException.class, () -> heard.lock("").acquire());
            CompletableFuture<Guard> refused = heard.lock("").acquireAsync();
            assertThrows(java.util.concurrent.ExecutionException.class, () -> refused.get(1, TimeUnit.MINUTES));
            guard.close();
            Guard lost = lock.acquireAsync().get(1, TimeUnit.MINUTES);
            lock.forceRelease(lost.token());
            assertEquals(LostReason.KEY_DELETED, lost.lost().get(1, TimeUnit.MINUTES));
            List<String> wanted = List.of(
                    "acquired ended",
                    "NOT_ACQUIRED ",
                    "CANCELLED ",
                    "INVALID_ARGUMENT ",
                    "INVALID_ARGUMENT ",
                    "acquired KEY_DELETED");
            Etcd.until("everything is told", () -> own.equals(wanted) && notes.heard.size() == 14);
            List<String> all = new ArrayList<>(notes.heard);
            assertEquals(6, all.stream().filter("acquiring"::equals).count());
            assertEquals(2, all.stream().filter("ended"::equals).count());
        }
    }

    /** However the cancel and the win meet: each acquire ends once, and as many holds end as have begun. */
    @Test
    void anAcquireThatIsCancelledIsHeardOnce() throws Exception {
        Notes notes = new Notes(null);
        try (LeaseholdClient heard =
                LeaseholdClient.builder("memory://heard").listener(notes).build()) {
            for (int round = 0; round < 300; round++) {
                CompletableFuture<Guard> waiting = heard.lock(name).acquireAsync();
                if (round % 3 == 1) {
                    Thread.onSpinWait();
                } else if (round % 3 == 2) {
                    Thread.yield();
                }
                if (!waiting.cancel(false)) {
                    waiting.join().close();
                }
            }
            Etcd.until("all is over", () -> !heard.lock(name).isLocked());
            Etcd.until("all is heard", () -> {
                long begun = notes.heard.stream().filter("acquiring"::equals).count();
                long acquired = notes.heard.stream().filter("acquired"::equals).count();
                long ended = notes.heard.stream().filter("ended"::equals).count();
                return begun == 300 && acquired == ended && notes.heard.size() == begun * 2 + ended;
            });
        }
    }
}

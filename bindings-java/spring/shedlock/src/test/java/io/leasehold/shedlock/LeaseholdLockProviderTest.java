package io.leasehold.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The provider as ShedLock uses it. Leases of etcd last two seconds at least, so these tests do. */
class LeaseholdLockProviderTest {
    private static final Duration NONE = Duration.ZERO;
    private static final Duration SHORT = Duration.ofSeconds(2);
    private static final Duration LONG = Duration.ofMinutes(5);

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static LockConfiguration task(String name, Duration atMost, Duration atLeast) {
        return new LockConfiguration(Instant.now(), name, atMost, atLeast);
    }

    private static LeaseholdLockProvider provider(LeaseholdClient client) {
        return new LeaseholdLockProvider(client, "/shedlock/");
    }

    private static boolean isFree(String name) {
        return !leasehold.client().lock("/shedlock/" + name).isLocked();
    }

    @Test
    void oneNodeGetsTheLockTheOthersSkip(LeaseholdClient client) {
        SimpleLock lock = provider(client).lock(task("job", LONG, NONE)).orElseThrow();
        assertThat(provider(leasehold.newClient()).lock(task("job", LONG, NONE))).isEmpty();
        assertThat(provider(client).lock(task("job", LONG, NONE))).isEmpty();
        assertThat(provider(client).lock(task("another job", LONG, NONE))).isPresent();
        lock.unlock();
        assertThat(provider(leasehold.newClient()).lock(task("job", LONG, NONE))).isPresent();
    }

    @Test
    void aHoldEndsWithLockAtMostFor(LeaseholdClient client) throws Exception {
        long begun = System.nanoTime();
        provider(client).lock(task("stuck", SHORT, NONE)).orElseThrow();
        // Waits in the queue: it comes when the lease of the stuck one has ended, and not before.
        try (Guard next = leasehold.newClient().lock("/shedlock/stuck").acquire(Duration.ofSeconds(20))) {
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(1900));
            assertThat(next.held()).isTrue();
        }
    }

    @Test
    void aHoldLastsForLockAtLeastFor(LeaseholdClient client) throws Exception {
        long begun = System.nanoTime();
        provider(client).lock(task("quick", LONG, Duration.ofMillis(600))).orElseThrow().unlock();
        assertThat(provider(leasehold.newClient()).lock(task("quick", LONG, NONE))).isEmpty();
        LeaseholdExtension.await("the lock is released", () -> isFree("quick"));
        assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(590));
    }

    @Test
    void aHoldLastsForLockAtLeastForWhateverBecomesOfTheNode() throws Exception {
        LeaseholdClient node = leasehold.newClient();
        long begun = System.nanoTime();
        provider(node).lock(task("short-lived", LONG, Duration.ofMillis(2500))).orElseThrow().unlock();
        node.close();
        assertThat(provider(leasehold.newClient()).lock(task("short-lived", LONG, NONE))).isEmpty();
        // And by the server, not by what is left of this process: the lease is one that ends.
        try (Guard next = leasehold.newClient().lock("/shedlock/short-lived").acquire(Duration.ofSeconds(20))) {
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(2400));
            assertThat(next.held()).isTrue();
        }
    }

    @Test
    void whoeverWaitsForATaskComesAfterLockAtLeastFor(LeaseholdClient client) throws Exception {
        SimpleLock lock = provider(client).lock(task("waited-for", LONG, Duration.ofMillis(300))).orElseThrow();
        lock.unlock();
        try (Guard next = leasehold.newClient().lock("/shedlock/waited-for").acquire(Duration.ofSeconds(20))) {
            assertThat(next.held()).isTrue();
        }
        LeaseholdExtension.await("nothing is left", () -> isFree("waited-for"));
    }

    @Test
    void anExtendedHoldLastsLonger(LeaseholdClient client) throws Exception {
        long begun = System.nanoTime();
        SimpleLock lock = provider(client).lock(task("extended", SHORT, NONE)).orElseThrow();
        Optional<SimpleLock> extended = lock.extend(Duration.ofSeconds(4), NONE);
        assertThat(extended).isPresent();
        try (Guard next = leasehold.newClient().lock("/shedlock/extended").acquire(Duration.ofSeconds(20))) {
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(3900));
            assertThat(next.held()).isTrue();
        }
        // What is gone cannot be extended.
        assertThat(extended.get().extend(SHORT, NONE)).isEmpty();
    }

    @Test
    void tasksRunThroughShedLocksOwnExecutor(LeaseholdClient client) throws Throwable {
        DefaultLockingTaskExecutor executor = new DefaultLockingTaskExecutor(provider(client));
        boolean ran = executor.executeWithLock(
                        () -> {
                            LockExtender.extendActiveLock(LONG, NONE);
                            return !isFree("executed");
                        },
                        task("executed", LONG, NONE))
                .getResult();
        assertThat(ran).isTrue();
        assertThat(isFree("executed")).isTrue();
    }

    /** ShedLock extends every half of {@code lockAtMostFor}, which it wants to be 30 s or more; here a hundred times as often. */
    private static final class Hasty extends ScheduledThreadPoolExecutor {
        Hasty() {
            super(1);
        }

        @Override
        public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, long delay, long period, TimeUnit unit) {
            return super.scheduleAtFixedRate(task, delay / 100, period / 100, unit);
        }
    }

    @Test
    void keepAliveExtendsUntilTheUnlock(LeaseholdClient client) throws Exception {
        ScheduledExecutorService timer = new Hasty();
        AtomicInteger extended = new AtomicInteger();
        ExtensibleLockProvider counting = configuration ->
                provider(client).lock(configuration).map(lock -> new Counting(lock, extended));
        try {
            SimpleLock lock = new KeepAliveLockProvider(counting, timer)
                    .lock(task("kept", Duration.ofSeconds(30), NONE))
                    .orElseThrow();
            LeaseholdExtension.await("three extensions", () -> extended.get() >= 3);
            assertThat(isFree("kept")).isFalse();
            lock.unlock();
            assertThat(isFree("kept")).isTrue();
        } finally {
            timer.shutdownNow();
        }
    }

    /** Counts what was extended. */
    private record Counting(SimpleLock lock, AtomicInteger extended) implements SimpleLock {
        @Override
        public void unlock() {
            lock.unlock();
        }

        @Override
        public Optional<SimpleLock> extend(Duration atMost, Duration atLeast) {
            return lock.extend(atMost, atLeast).map(longer -> {
                extended.incrementAndGet();
                return new Counting(longer, extended);
            });
        }
    }
}

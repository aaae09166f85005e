package io.leasehold.shedlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.LeaseholdClient;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * What ShedLock's own suite asks of a provider, in words of our own, as far as {@link LeaseholdLockProviderTest} does not ask it:
 * docs/java-compatibility.md has the table.
 */
class LeaseholdLockProviderSuiteTest {
    private static final Duration NONE = Duration.ZERO;
    private static final Duration LONG = Duration.ofMinutes(5);

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static LockConfiguration task(String name, Duration atLeast) {
        return new LockConfiguration(Instant.now(), name, LONG, atLeast);
    }

    private static LeaseholdLockProvider provider(LeaseholdClient client) {
        return new LeaseholdLockProvider(client, "/shedlock/");
    }

    private static boolean isFree(String name) {
        return !leasehold.client().lock("/shedlock/" + name).isLocked();
    }

    @Test
    void aLockIsTakenAndFreeAfterItsUnlock(LeaseholdClient client) {
        SimpleLock lock = provider(client).lock(task("one", NONE)).orElseThrow();
        assertThat(isFree("one")).isFalse();
        lock.unlock();
        assertThat(isFree("one")).isTrue();
    }

    /** Seen to fail with a rest of less than ShedLock's clock can tell. */
    @Test
    void itCanBeTakenRightAfterItsUnlock(LeaseholdClient client) {
        LockProvider provider = provider(client);
        for (int round = 0; round < 300; round++) {
            SimpleLock lock = provider.lock(task("again", NONE)).orElseThrow();
            assertThat(provider.lock(task("again", NONE))).isEmpty();
            lock.unlock();
        }
    }

    @Test
    void whatIsOverCannotBeExtendedOrUnlocked(LeaseholdClient client) {
        SimpleLock lock = provider(client).lock(task("over", NONE)).orElseThrow();
        SimpleLock extended = lock.extend(LONG, NONE).orElseThrow();
        assertThatThrownBy(() -> lock.extend(LONG, NONE)).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(lock::unlock).isInstanceOf(IllegalStateException.class);
        assertThat(isFree("over")).isFalse();
        extended.unlock();
        assertThat(isFree("over")).isTrue();
        assertThatThrownBy(() -> extended.extend(LONG, NONE)).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void anExtensionHasItsOwnLeast(LeaseholdClient client) throws Exception {
        SimpleLock lock = provider(client).lock(task("least", NONE)).orElseThrow();
        Optional<SimpleLock> extended = lock.extend(LONG, Duration.ofSeconds(3));
        extended.orElseThrow().unlock();
        assertThat(isFree("least")).isFalse();
        LeaseholdExtension.await("the rest of its time is over", () -> isFree("least"));
    }

    /** Each adds one to a number that only the lock protects. */
    @Test
    void manyThreadsLoseNoUpdate(LeaseholdClient client) throws Exception {
        int threads = 8;
        int each = 50;
        int[] sum = {0};
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        for (int thread = 0; thread < threads; thread++) {
            LockProvider provider = provider(thread % 2 == 0 ? client : leasehold.newClient());
            executor.submit(() -> {
                for (int done = 0; done < each; ) {
                    Optional<SimpleLock> lock = provider.lock(task("sum", NONE));
                    if (lock.isPresent()) {
                        int seen = sum[0];
                        Thread.yield();
                        sum[0] = seen + 1;
                        lock.get().unlock();
                        done++;
                    }
                }
                return null;
            });
        }
        executor.shutdown();
        assertThat(executor.awaitTermination(5, TimeUnit.MINUTES)).isTrue();
        assertThat(sum[0]).isEqualTo(threads * each);
    }
}

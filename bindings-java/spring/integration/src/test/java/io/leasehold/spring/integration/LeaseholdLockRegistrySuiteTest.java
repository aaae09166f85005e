package io.leasehold.spring.integration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * What the tests of Spring Integration's own registries ask, in words of our own, as far as {@link LeaseholdLockRegistryTest} does not
 * ask it: docs/java-compatibility.md has the table.
 */
class LeaseholdLockRegistrySuiteTest {
    private static final int ROUNDS = 10;

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static LeaseholdLockRegistry registry(LeaseholdClient client) {
        return new LeaseholdLockRegistry(client, "/suite/");
    }

    private static <T> CompletableFuture<T> elsewhere(Callable<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        new Thread(() -> {
                    try {
                        result.complete(work.call());
                    } catch (Throwable thrown) {
                        result.completeExceptionally(thrown);
                    }
                })
                .start();
        return result.orTimeout(2, TimeUnit.MINUTES);
    }

    @Test
    void itIsTakenAndFreeAgainAndAgain(LeaseholdClient client) throws Exception {
        LeaseholdLockRegistry registry = registry(client);
        for (int round = 0; round < ROUNDS; round++) {
            Lock lock = registry.obtain("orders");
            lock.lock();
            assertThat(client.lock("/suite/orders").isLocked()).isTrue();
            lock.unlock();
            lock.lockInterruptibly();
            lock.unlock();
            assertThat(lock.tryLock()).isTrue();
            lock.unlock();
            assertThat(client.lock("/suite/orders").isLocked()).isFalse();
        }
    }

    @Test
    void itIsReentrant(LeaseholdClient client) throws Exception {
        LeaseholdLockRegistry registry = registry(client);
        for (int round = 0; round < ROUNDS; round++) {
            Lock outer = registry.obtain("orders");
            outer.lock();
            Lock inner = registry.obtain("orders");
            inner.lockInterruptibly();
            inner.unlock();
            assertThat(client.lock("/suite/orders").isLocked()).isTrue();
            outer.unlock();
        }
    }

    @Test
    void twoKeysAreTwoLocks(LeaseholdClient client) throws Exception {
        LeaseholdLockRegistry registry = registry(client);
        registry.obtain("orders").lock();
        assertThat(elsewhere(() -> registry.obtain("invoices").tryLock()).get()).isTrue();
        registry.obtain("orders").unlock();
    }

    @Test
    void theSecondThreadFails(LeaseholdClient client) throws Exception {
        LeaseholdLockRegistry registry = registry(client);
        registry.obtain("orders").lockInterruptibly();
        Object thrown = elsewhere(() -> {
                    Lock second = registry.obtain("orders");
                    assertThat(second.tryLock(50, TimeUnit.MILLISECONDS)).isFalse();
                    assertThatThrownBy(second::unlock).isInstanceOf(IllegalMonitorStateException.class);
                    return "refused";
                })
                .get();
        assertThat(thrown).isEqualTo("refused");
        registry.obtain("orders").unlock();
    }

    @Test
    void theSecondThreadWaitsInWhateverRegistry(LeaseholdClient client) throws Exception {
        for (LeaseholdLockRegistry other : new LeaseholdLockRegistry[] {registry(client), registry(leasehold.newClient())}) {
            Lock first = registry(client).obtain("orders");
            first.lock();
            CompletableFuture<Boolean> second = elsewhere(() -> {
                Lock lock = other.obtain("orders");
                lock.lockInterruptibly();
                lock.unlock();
                return true;
            });
            LeaseholdExtension.await("it waits", () -> client.lock("/suite/orders").queue().size() == 2);
            assertThat(second).isNotDone();
            first.unlock();
            assertThat(second.get()).isTrue();
        }
    }

    @Test
    void theWrongThreadCannotUnlock(LeaseholdClient client) {
        Lock lock = registry(client).obtain("orders");
        lock.lock();
        assertThatThrownBy(elsewhere(() -> {
                    lock.unlock();
                    return null;
                })::join)
                .isInstanceOf(CompletionException.class)
                .hasCauseInstanceOf(IllegalMonitorStateException.class);
        assertThat(client.lock("/suite/orders").isLocked()).isTrue();
        lock.unlock();
    }

    @Test
    void whereNobodyAnswersItFails() throws Exception {
        try (LeaseholdClient nowhere = LeaseholdClient.builder("http://127.0.0.1:1")
                .requestTimeout(Duration.ofMillis(200))
                .connectTimeout(Duration.ofMillis(50))
                .build()) {
            Lock lock = registry(nowhere).obtain("orders");
            assertThatThrownBy(() -> lock.tryLock(1, TimeUnit.SECONDS)).isInstanceOf(LeaseholdException.class);
            assertThatThrownBy(lock::lock).isInstanceOf(LeaseholdException.class);
            Thread.currentThread().interrupt();
            assertThatThrownBy(lock::lockInterruptibly).isInstanceOf(InterruptedException.class);
            assertThat(Thread.interrupted()).isFalse();
        }
    }
}

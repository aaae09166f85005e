package io.leasehold.spring.integration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DistributedLock;

/** The registry as Spring Integration uses it. */
class LeaseholdLockRegistryTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static LeaseholdLockRegistry registry(LeaseholdClient client) {
        return new LeaseholdLockRegistry(client, "/si/");
    }

    @Test
    void aLockExcludesOtherClientsAndNotItsThread(LeaseholdClient client) throws Exception {
        DistributedLock lock = registry(client).obtain("group-1");
        lock.lock();
        assertThat(registry(client).obtain("group-1").tryLock()).isTrue();
        DistributedLock other = registry(leasehold.newClient()).obtain("group-1");
        assertThat(other.tryLock(50, TimeUnit.MILLISECONDS)).isFalse();
        lock.unlock();
        assertThat(other.tryLock()).isFalse();
        lock.unlock();
        assertThat(other.tryLock()).isTrue();
        other.unlock();
        assertThatThrownBy(lock::unlock).isInstanceOf(IllegalMonitorStateException.class);
        assertThat(client.lock("/si/group-1").isLocked()).isFalse();
    }

    @Test
    void executeLockedHoldsTheLock(LeaseholdClient client) throws Exception {
        String seen = registry(client)
                .executeLocked("key", () -> client.lock("/si/key").isLocked() ? "held" : "free");
        assertThat(seen).isEqualTo("held");
        try (Guard guard = leasehold.newClient().lock("/si/key").acquire()) {
            assertThatThrownBy(() -> registry(client).executeLocked("key", Duration.ofMillis(50), () -> {
                        throw new AssertionError("it ran without the lock");
                    }))
                    .isInstanceOf(TimeoutException.class);
            assertThat(guard.held()).isTrue();
        }
    }

    @Test
    void aTimeToLiveEndsTheHold(LeaseholdClient client) throws Exception {
        DistributedLock lock = registry(client).obtain("short");
        lock.lock(Duration.ofSeconds(2));
        DistributedLock other = registry(leasehold.newClient()).obtain("short");
        // Nobody unlocks: it frees itself.
        assertThat(other.tryLock(Duration.ofSeconds(20), Duration.ofSeconds(2))).isTrue();
        other.unlock();
    }

    @Test
    void aTimeToLiveThatIsTooShortIsTheShortest(LeaseholdClient client) throws Exception {
        DistributedLock lock = registry(client).obtain("shorter");
        assertThat(lock.tryLock(Duration.ZERO, Duration.ofMillis(100))).isTrue();
        lock.unlock();
        lock.lock(Duration.ofMillis(100));
        lock.unlock();
    }

    @Test
    void aHoldIsRenewedByItsThreadOnly(LeaseholdClient client) throws Exception {
        LeaseholdLockRegistry registry = registry(client);
        DistributedLock lock = registry.obtain("renewed");
        assertThatThrownBy(() -> registry.renewLock("renewed")).isInstanceOf(IllegalStateException.class);
        long begun = System.nanoTime();
        lock.lock(Duration.ofSeconds(2));
        registry.renewLock("renewed", Duration.ofSeconds(4));
        registry.renewLock("renewed", Duration.ofMillis(1));
        // Nobody unlocks: it frees itself, later than it would have.
        try (Guard next = leasehold.newClient().lock("/si/renewed").acquire(Duration.ofSeconds(20))) {
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(3900));
            assertThat(next.held()).isTrue();
        }
        assertThatThrownBy(() -> registry.renewLock("renewed")).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(lock::unlock).isInstanceOf(io.leasehold.LockLostException.class);

        lock.lock();
        registry.renewLock("renewed");
        leasehold.lose("/si/renewed");
        LeaseholdExtension.await("it is lost", () -> !client.lock("/si/renewed").isHeldByCurrentThread());
        assertThatThrownBy(() -> registry.renewLock("renewed")).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(lock::unlock).isInstanceOf(io.leasehold.LockLostException.class);
    }

    @Test
    void aLeaderIsElectedAndFollowedByTheNext(LeaseholdClient client) throws Exception {
        CountDownLatch first = new CountDownLatch(1);
        CountDownLatch second = new CountDownLatch(1);
        LockRegistryLeaderInitiator one = initiator(client, "one", first);
        LockRegistryLeaderInitiator two = initiator(leasehold.newClient(), "two", second);
        one.start();
        assertThat(first.await(10, TimeUnit.SECONDS)).isTrue();
        two.start();
        assertThat(two.getContext().isLeader()).isFalse();
        one.stop();
        assertThat(second.await(20, TimeUnit.SECONDS)).isTrue();
        two.stop();
    }

    private static LockRegistryLeaderInitiator initiator(LeaseholdClient client, String id, CountDownLatch granted) {
        LockRegistryLeaderInitiator initiator =
                new LockRegistryLeaderInitiator(registry(client), new DefaultCandidate(id, "leader") {
                    @Override
                    public void onGranted(Context context) {
                        granted.countDown();
                    }
                });
        initiator.setBusyWaitMillis(20);
        return initiator;
    }
}

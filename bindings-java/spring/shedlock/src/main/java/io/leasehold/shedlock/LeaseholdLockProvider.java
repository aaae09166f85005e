package io.leasehold.shedlock;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LockLostException;
import io.leasehold.NotHeldException;
import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * ShedLock's locks on etcd: one node runs a scheduled task, the others skip it.
 *
 * <p>{@code lockAtMostFor} is the TTL of a lease of the task's own, which is not renewed: it ends then, whatever became of the
 * node. It is at least 2 s and counted in whole seconds, rounded up. {@code lockAtLeastFor} holds on the server: when the task is
 * done before, a lease of the rest of that time takes over, in whole seconds too, whatever becomes of the process and of the
 * client. While the process lives, it ends that at the very time.
 *
 * <p>A lock can be extended, so that {@code LockExtender} and {@code KeepAliveLockProvider} work.
 */
public final class LeaseholdLockProvider implements ExtensibleLockProvider {
    private static final System.Logger LOGGER = System.getLogger(LeaseholdLockProvider.class.getName());
    private static final Duration SHORTEST = Duration.ofSeconds(2);

    private final LeaseholdClient client;
    private final String prefix;
    private final Parking parking;

    /**
     * A provider whose locks are called as the tasks.
     *
     * @param client the client; closing it releases the locks
     * @param prefix put before the name of each task, such as {@code /shedlock/}
     */
    public LeaseholdLockProvider(LeaseholdClient client, String prefix) {
        this.client = Objects.requireNonNull(client, "client");
        this.parking = new Parking(client);
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    /**
     * Takes the lock of a task, if nobody has it.
     *
     * @param configuration the name, and how long to hold it
     * @return the lock, or empty
     */
    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        try {
            return client.lock(prefix + configuration.getName())
                    .withTtl(atLeastTwoSeconds(configuration.getLockAtMostFor()))
                    .withRenew(false)
                    .tryAcquire()
                    .map(guard -> new Held(configuration, guard, parking));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return Optional.empty();
        }
    }

    static Duration atLeastTwoSeconds(Duration time) {
        return time.compareTo(SHORTEST) < 0 ? SHORTEST : time;
    }

    /** A lock that this node has. */
    private static final class Held extends AbstractSimpleLock {
        private final Guard guard;
        private final Parking parking;

        Held(LockConfiguration configuration, Guard guard, Parking parking) {
            super(configuration);
            this.guard = guard;
            this.parking = parking;
        }

        @Override
        protected void doUnlock() {
            Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            // ShedLock's clock counts milliseconds: a part of one is none, and would keep a task's lock that asks for no rest.
            if (rest.toMillis() <= 0 || parking.park(guard.name(), rest)) {
                release();
            } else {
                // As good as can be without etcd's help: the lease of the task ends with lockAtMostFor.
                CompletableFuture.delayedExecutor(rest.toMillis(), TimeUnit.MILLISECONDS).execute(this::release);
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration extended) {
            Instant until = extended.getLockAtMostUntil();
            try {
                guard.extend(atLeastTwoSeconds(Duration.between(ClockProvider.now(), until)));
                return Optional.of(new Held(extended, guard, parking));
            } catch (LockLostException | NotHeldException gone) {
                return Optional.empty();
            }
        }

        private void release() {
            try {
                guard.close();
            } catch (LockLostException lost) {
                LOGGER.log(
                        System.Logger.Level.WARNING,
                        "the task {0} took longer than its lockAtMostFor, or its lock was taken away: another node may have run it"
                                + " meanwhile",
                        lockConfiguration.getName());
            } catch (LeaseholdException error) {
                // The client was closed: the lock is free.
                LOGGER.log(System.Logger.Level.DEBUG, "the lock of the task was not released", error);
            }
        }
    }
}

package io.leasehold.spring.boot;

import io.leasehold.ErrorCode;
import io.leasehold.LockListener;
import io.leasehold.LostReason;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Counts what is held and what is asked for, and lets the shutdown wait until nothing is: after the web server and the schedulers have finished their
 * work, before the client is closed and releases the rest.
 */
final class HeldLocks implements LockListener, SmartLifecycle {
    /** After everything that has work of users to finish; the web server's own stop is the last of those, at {@code - 2048}. */
    static final int PHASE = SmartLifecycle.DEFAULT_PHASE - 4096;

    private static final Logger log = LoggerFactory.getLogger(HeldLocks.class);

    private final Duration timeout;
    private final ReentrantLock mutex = new ReentrantLock();
    private final Condition changed = mutex.newCondition();
    private int held;
    /** How many holds of each name. */
    private final Map<String, Integer> names = new TreeMap<>();
    /** How many acquires of each name are under way. */
    private final Map<String, Integer> acquiring = new TreeMap<>();
    private volatile boolean running;

    HeldLocks(Duration timeout) {
        this.timeout = timeout;
    }

    int count() {
        mutex.lock();
        try {
            return held;
        } finally {
            mutex.unlock();
        }
    }

    int waiting() {
        return acquiring().values().stream().mapToInt(Integer::intValue).sum();
    }

    /** What is held now, and how often. */
    Map<String, Integer> names() {
        return copy(names);
    }

    /** What is asked for now, and how often. */
    Map<String, Integer> acquiring() {
        return copy(acquiring);
    }

    private Map<String, Integer> copy(Map<String, Integer> counts) {
        mutex.lock();
        try {
            return new TreeMap<>(counts);
        } finally {
            mutex.unlock();
        }
    }

    @Override
    public @Nullable LockListener acquiring(String name) {
        count(acquiring, name, 1);
        return null;
    }

    @Override
    public void failed(String name, Duration waited, ErrorCode code) {
        count(acquiring, name, -1);
    }

    @Override
    public void acquired(String name, Duration waited) {
        count(acquiring, name, -1);
        change(name, 1);
    }

    @Override
    public void ended(String name, Duration held, @Nullable LostReason lost) {
        change(name, -1);
    }

    private void change(String name, int by) {
        mutex.lock();
        try {
            held += by;
            count(names, name, by);
            changed.signalAll();
        } finally {
            mutex.unlock();
        }
    }

    private void count(Map<String, Integer> counts, String name, int by) {
        mutex.lock();
        try {
            counts.compute(name, (each, count) -> {
                int left = (count == null ? 0 : count) + by;
                return left == 0 ? null : left;
            });
        } finally {
            mutex.unlock();
        }
    }

    @Override
    public void start() {
        running = true;
    }

    @Override
    public void stop() {
        running = false;
        mutex.lock();
        try {
            long left = timeout.toNanos();
            if (held > 0) {
                log.info("waiting for {} lock(s) that are still held, for at most {}", held, timeout);
            }
            while (held > 0 && left > 0) {
                left = changed.awaitNanos(left);
            }
            if (held > 0) {
                log.warn("{} lock(s) are still held after {}; closing the client releases them", held, timeout);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } finally {
            mutex.unlock();
        }
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }
}

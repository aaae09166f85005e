package io.leasehold;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The thread that takes completions out of the native queue and hands them to those who wait.
 *
 * <p>There is one for all clients, a daemon: it keeps no JVM alive. It starts with the first operation and ends when every
 * client is closed and no operation runs any more, so that a class loader can be unloaded. Nothing else may end it, because
 * everybody waits for it: it runs no foreign code but the question which level is logged, and where Java has no memory or no
 * thread left, it tries again until it has.
 */
final class Dispatcher implements Runnable {
    /** Starts an operation of the native library; returns its id. */
    @FunctionalInterface
    interface Start {
        long start(long queue, long tag);
    }

    private static final int BATCH = 64;
    /** How long it waits for completions before it looks after what nobody tells it: see {@link #lookAround}. */
    private static final long ROUND_MILLIS = 2_000;
    /** After how long it tries again what did not work. */
    private static final long RETRY_MILLIS = 50;
    /** The tag of log records; operations have positive ones. */
    private static final long LOG_TAG = 0;
    /** {@link #users} of one that ended. */
    private static final int ENDED = Integer.MIN_VALUE;

    private static final Object STARTING = new Object();
    private static volatile @Nullable Dispatcher current;

    private final long queue = Native.queueOpen();
    private final Map<Long, Receiver> receivers = new ConcurrentHashMap<>();
    private final AtomicLong tags = new AtomicLong(LOG_TAG);
    /** Open clients and running operations. Without any it ends. */
    private final AtomicInteger users = new AtomicInteger(1);
    /** What no executor took. Only its own thread touches it. */
    private final Queue<Runnable> deferred = new ArrayDeque<>();
    /** What the native library was told to report. */
    private volatile int level;
    private long lookedAround = System.nanoTime();

    private Dispatcher() {}

    /** Starts an operation whose results {@code receiver} gets. */
    static void start(Receiver receiver, Start operation) {
        Dispatcher dispatcher = retain();
        long tag = dispatcher.tags.incrementAndGet();
        dispatcher.receivers.put(tag, receiver);
        long id;
        try {
            id = operation.start(dispatcher.queue, tag);
        } catch (Throwable thrown) {
            dispatcher.receivers.remove(tag);
            dispatcher.release();
            throw thrown;
        }
        receiver.started(id);
    }

    /** One more user of the running dispatcher; starts one if none runs. */
    static Dispatcher retain() {
        Dispatcher running = current;
        if (running != null && running.join()) {
            return running;
        }
        synchronized (STARTING) {
            running = current;
            if (running != null && running.join()) {
                return running;
            }
            Dispatcher started = new Dispatcher();
            try {
                started.listen(Logs.level());
                new Own(started).start();
            } catch (Throwable noThread) {
                Native.logsStop();
                Native.queueClose(started.queue);
                throw noThread;
            }
            current = started;
            return started;
        }
    }

    /** One user less. The last one ends it. */
    void release() {
        if (users.decrementAndGet() == 0 && users.compareAndSet(0, ENDED)) {
            synchronized (STARTING) {
                if (current == this) {
                    current = null;
                    Native.logsStop();
                }
            }
            Native.queueClose(queue);
        }
    }

    private boolean join() {
        int before;
        do {
            before = users.get();
            if (before <= 0) {
                return false;
            }
        } while (!users.compareAndSet(before, before + 1));
        return true;
    }

    /** The level that the native library reports from, 1 to 5; 0 if nobody listens. */
    static int level() {
        Dispatcher running = current;
        return running == null ? 0 : running.level;
    }

    /** Does something in a moment, if a dispatcher asks; what cannot be done then defers itself again. */
    static boolean defer(Runnable retry) {
        if (Thread.currentThread() instanceof Own own) {
            own.dispatcher.deferred.add(retry);
            return true;
        }
        return false;
    }

    // --- its thread ---

    @Override
    public void run() {
        long[] numbers = new long[BATCH * Completion.NUMBERS];
        @Nullable Object[] objects = new @Nullable Object[BATCH * Completion.OBJECTS];
        int count;
        while ((count = take(numbers, objects)) >= 0) {
            for (int row = 0; row < count; row++) {
                dispatch(numbers, objects, row);
            }
            retryDeferred();
            lookAround();
        }
        while (!deferred.isEmpty()) {
            pause();
            retryDeferred();
        }
    }

    private int take(long[] numbers, @Nullable Object[] objects) {
        while (true) {
            try {
                return Native.queueTake(queue, deferred.isEmpty() ? ROUND_MILLIS : RETRY_MILLIS, numbers, objects);
            } catch (Throwable noMemory) {
                pause();
            }
        }
    }

    private void dispatch(long[] numbers, @Nullable Object[] objects, int row) {
        long tag = numbers[row * Completion.NUMBERS];
        boolean isLast = Completion.isLast(numbers, row);
        while (true) {
            try {
                deliver(tag, Completion.of(numbers, objects, row));
                break;
            } catch (OutOfMemoryError noMemory) {
                pause();
            } catch (Throwable ours) {
                Logs.listenerFailed(ours);
                break;
            }
        }
        Completion.forget(objects, row);
        if (isLast && tag != LOG_TAG) {
            receivers.remove(tag);
            release();
        }
    }

    private void deliver(long tag, Completion completion) {
        if (tag == LOG_TAG) {
            Logs.record(completion);
            return;
        }
        Receiver receiver = receivers.get(tag);
        if (receiver != null) {
            receiver.take(completion);
        }
    }

    private void retryDeferred() {
        for (int left = deferred.size(); left > 0; left--) {
            Runnable retry = deferred.peek();
            try {
                if (retry != null) {
                    retry.run();
                }
                deferred.poll();
            } catch (Throwable noMemory) {
                return;
            }
        }
    }

    /**
     * Now and then: who logs may want to hear more or less by now, threads may have ended with locks in their hands, and holds that
     * somebody listens to may last.
     */
    private void lookAround() {
        long now = System.nanoTime();
        if (now - lookedAround < ROUND_MILLIS * 500_000) {
            return;
        }
        lookedAround = now;
        try {
            int wanted = Logs.level();
            synchronized (STARTING) {
                if (current == this && wanted != level) {
                    listen(wanted);
                }
            }
            ThreadHolds.releaseThoseOfTheDead();
            Listeners.watchThoseThatLast();
        } catch (Throwable theirs) {
            // The next round is soon.
        }
    }

    private void listen(int wanted) {
        level = wanted;
        if (wanted > 0) {
            Native.logsListen(wanted, queue, LOG_TAG);
        } else {
            Native.logsStop();
        }
    }

    private static void pause() {
        LockSupport.parkNanos(RETRY_MILLIS * 1_000_000);
    }

    private static final class Own extends Thread {
        final Dispatcher dispatcher;

        Own(Dispatcher dispatcher) {
            super(null, dispatcher, "leasehold-dispatcher", 0, false);
            this.dispatcher = dispatcher;
            setDaemon(true);
            setContextClassLoader(Dispatcher.class.getClassLoader());
        }
    }
}

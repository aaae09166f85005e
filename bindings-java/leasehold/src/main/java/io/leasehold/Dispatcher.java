package io.leasehold;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * The thread that takes completions out of the native queue and hands them to those who wait.
 *
 * <p>There is one for all clients, a daemon: it keeps no JVM alive. It starts with the first operation and ends when every
 * client is closed and no operation runs any more, so that a class loader can be unloaded.
 */
final class Dispatcher implements Runnable {
    /** Starts an operation of the native library; returns its id. */
    @FunctionalInterface
    interface Start {
        long start(long queue, long tag);
    }

    private static final int BATCH = 64;
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
            int level = Logs.level();
            if (level > 0) {
                Native.logsListen(level, started.queue, LOG_TAG);
            }
            Thread thread = new Thread(null, started, "leasehold-dispatcher", 0, false);
            thread.setDaemon(true);
            thread.start();
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

    @Override
    public void run() {
        long[] numbers = new long[BATCH * Completion.NUMBERS];
        @Nullable Object[] objects = new @Nullable Object[BATCH * Completion.OBJECTS];
        int count;
        while ((count = Native.queueTake(queue, numbers, objects)) >= 0) {
            for (int index = 0; index < count; index++) {
                dispatch(numbers[index * Completion.NUMBERS], Completion.of(numbers, objects, index));
            }
        }
    }

    private void dispatch(long tag, Completion completion) {
        if (tag == LOG_TAG) {
            Logs.record(completion);
            return;
        }
        Receiver receiver = completion.last() ? receivers.remove(tag) : receivers.get(tag);
        if (receiver != null) {
            try {
                receiver.take(completion);
            } catch (Throwable thrown) {
                // Nothing may end this thread: everybody else waits for it.
                Logs.listenerFailed(thrown);
            }
        }
        if (completion.last()) {
            release();
        }
    }
}

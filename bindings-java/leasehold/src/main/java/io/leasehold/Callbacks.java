package io.leasehold;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Where code of users runs that nobody waits for: continuations and listeners. */
final class Callbacks {
    /**
     * The default: daemon threads, made when needed and ended when idle. Without a limit, because a continuation may wait for
     * another one.
     */
    static final Executor EXECUTOR =
            new ThreadPoolExecutor(0, Integer.MAX_VALUE, 5, TimeUnit.SECONDS, new SynchronousQueue<>(), Callbacks::thread);

    private static final AtomicInteger COUNT = new AtomicInteger();

    private Callbacks() {}

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(null, task, "leasehold-callback-" + COUNT.incrementAndGet(), 0, false);
        thread.setDaemon(true);
        return thread;
    }

    /** {@code executor}, or the default one for what it refuses once it is shut down: what is due is due all the same. */
    static Executor orDefault(Executor executor) {
        return task -> {
            try {
                executor.execute(task);
            } catch (RejectedExecutionException shutDown) {
                EXECUTOR.execute(task);
            }
        };
    }

    /** Runs tasks one after the other on another executor: listeners hear things in the order in which they happened. */
    static Executor inOrder(Executor executor) {
        return new InOrder(executor);
    }

    private static final class InOrder implements Executor, Runnable {
        private final Executor executor;
        private final Queue<Runnable> tasks = new ArrayDeque<>();
        private boolean isRunning;

        InOrder(Executor executor) {
            this.executor = executor;
        }

        @Override
        public void execute(Runnable task) {
            synchronized (tasks) {
                tasks.add(task);
                if (isRunning) {
                    return;
                }
                isRunning = true;
            }
            executor.execute(this);
        }

        @Override
        public void run() {
            while (true) {
                Runnable task;
                synchronized (tasks) {
                    task = tasks.poll();
                    if (task == null) {
                        isRunning = false;
                        return;
                    }
                }
                try {
                    task.run();
                } catch (Throwable thrown) {
                    Logs.listenerFailed(thrown);
                }
            }
        }
    }
}

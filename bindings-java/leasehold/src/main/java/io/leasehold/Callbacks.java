package io.leasehold;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * Where code of users runs that nobody waits for: continuations and listeners. What is due runs, once, whatever an executor does
 * that is asked to run it.
 */
final class Callbacks {
    /**
     * Daemon threads, made when needed and ended when idle. Without a limit, because a continuation may wait for another one.
     */
    static final ThreadPoolExecutor THREADS =
            new ThreadPoolExecutor(0, Integer.MAX_VALUE, 5, TimeUnit.SECONDS, new SynchronousQueue<>(), Callbacks::thread);

    private static final AtomicInteger COUNT = new AtomicInteger();

    private Callbacks() {}

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(null, task, "leasehold-callback-" + COUNT.incrementAndGet(), 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(Callbacks.class.getClassLoader());
        return thread;
    }

    /**
     * Runs tasks on {@code executor}, if there is one and it takes them, on threads of ours otherwise. There, tasks see {@code
     * loader} as their context class loader: the threads are everybody's, the tasks are not.
     */
    static Executor reliable(@Nullable Executor executor, @Nullable ClassLoader loader) {
        return new Reliable(executor, loader);
    }

    /** Runs tasks one after the other on another executor: listeners hear things in the order in which they happened. */
    static Executor inOrder(Executor reliable) {
        return new InOrder(reliable);
    }

    private record Reliable(@Nullable Executor executor, @Nullable ClassLoader loader) implements Executor {
        @Override
        public void execute(Runnable task) {
            offer(new Once(task, loader));
        }

        private void offer(Once task) {
            if (executor != null) {
                try {
                    executor.execute(task);
                    return;
                } catch (RejectedExecutionException shutDown) {
                    // What is due is due all the same.
                } catch (Throwable thrown) {
                    task.refused(thrown);
                }
            }
            try {
                THREADS.execute(task);
            } catch (Throwable noThread) {
                // The dispatcher must not wait, and so not run it. It offers it again in a moment. Anybody else may run it.
                if (!Dispatcher.defer(() -> offer(task))) {
                    task.run();
                }
            }
        }
    }

    /** A task that runs once, though an executor may take it, throw, and run it all the same. */
    private static final class Once implements Runnable {
        private final @Nullable ClassLoader loader;
        private @Nullable Runnable task;
        private @Nullable Throwable refusal;

        Once(Runnable task, @Nullable ClassLoader loader) {
            this.task = task;
            this.loader = loader;
        }

        synchronized void refused(Throwable thrown) {
            refusal = thrown;
        }

        @Override
        public void run() {
            Runnable due;
            Throwable thrown;
            synchronized (this) {
                due = task;
                task = null;
                thrown = refusal;
                refusal = null;
            }
            if (thrown != null) {
                Logs.executorFailed(thrown);
            }
            if (due == null) {
                return;
            }
            Thread thread = Thread.currentThread();
            if (loader == null || !thread.getName().startsWith("leasehold-callback-")) {
                due.run();
                return;
            }
            ClassLoader before = thread.getContextClassLoader();
            thread.setContextClassLoader(loader);
            try {
                due.run();
            } finally {
                thread.setContextClassLoader(before);
            }
        }
    }

    private static final class InOrder implements Executor, Runnable {
        private final Executor reliable;
        private final Queue<Runnable> tasks = new ArrayDeque<>();
        private boolean isRunning;

        InOrder(Executor reliable) {
            this.reliable = reliable;
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
            try {
                reliable.execute(this);
            } catch (Throwable noMemory) {
                synchronized (tasks) {
                    isRunning = false;
                }
                throw noMemory;
            }
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

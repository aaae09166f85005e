package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Threads of a test that wait for something, one behind the other. */
final class Contenders {
    private final LeaseholdLock queue;
    private final List<Thread> threads = new ArrayList<>();

    /** Threads that stand in the queue of this lock. */
    Contenders(LeaseholdLock queue) {
        this.queue = queue;
    }

    /** What a thread brings. */
    record Running<T>(Thread thread, CompletableFuture<T> result) {
        T await() throws Exception {
            return result.get(2, TimeUnit.MINUTES);
        }
    }

    <T> Running<T> start(Callable<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(work.call());
            } catch (Throwable thrown) {
                result.completeExceptionally(thrown);
            }
        });
        threads.add(thread);
        thread.start();
        return new Running<>(thread, result);
    }

    /** Starts one and waits until it stands in the queue, behind those who are there. */
    <T> Running<T> queue(Callable<T> work) {
        int before = queue.queue().size();
        Running<T> started = start(work);
        Etcd.until("it stands in the queue", () -> queue.queue().size() == before + 1);
        return started;
    }

    /** What it gives in another thread. */
    <T> T elsewhere(Callable<T> work) throws Exception {
        return start(work).await();
    }

    /** An interrupt is the answer, and is used up by it. */
    void interrupted(Interruptible work) {
        Running<Boolean> waiting = queue(() -> {
            try {
                work.run();
                return null;
            } catch (InterruptedException expected) {
                return Thread.interrupted();
            }
        });
        waiting.thread().interrupt();
        try {
            assertEquals(false, waiting.await());
        } catch (Exception error) {
            throw new AssertionError(error);
        }
        // Its place is given up.
        Etcd.until("its place is gone", () -> queue.queue().stream().allMatch(Contender::holder));
    }

    interface Interruptible {
        void run() throws InterruptedException;
    }

    void close() throws InterruptedException {
        for (Thread thread : threads) {
            thread.join(TimeUnit.MINUTES.toMillis(2));
            assertEquals(false, thread.isAlive());
        }
    }
}

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;

/**
 * A thousand virtual threads wait for a lock that is held: all of them are parked, none pins its carrier, and a thousand others
 * work meanwhile. How long they take, beside a thousand that are plainly parked for the same time, is printed. Run as a source
 * file by a newer JDK than the one that builds.
 */
public final class VirtualThreads {
    private static final int THREADS = 1000;
    private static final Duration WAIT = Duration.ofSeconds(2);

    public static void main(String[] arguments) throws Exception {
        // A thousand requests at once take a busy machine a while.
        Duration patience = Duration.ofSeconds(30);
        try (LeaseholdClient client = LeaseholdClient.builder(arguments[0]).requestTimeout(patience).build();
                LeaseholdClient holder = LeaseholdClient.connect(arguments[0])) {
            LeaseholdLock lock = client.lock(arguments[1]);
            lock.acquire().close();
            Duration parked = together(THREADS, () -> LockSupport.parkNanos(WAIT.toNanos()));
            AtomicInteger refused = new AtomicInteger();
            Duration waited;
            long pinned;
            AtomicReference<Duration> limit = new AtomicReference<>(Duration.ofMillis(1));
            Work wait = () -> {
                if (lock.tryAcquire(limit.get()).isEmpty()) {
                    refused.incrementAndGet();
                }
            };
            AtomicInteger turns = new AtomicInteger();
            // Re-entrant, in turn.
            Work turn = () -> {
                lock.lock();
                lock.lock();
                turns.incrementAndGet();
                lock.unlock();
                lock.unlock();
            };
            try (Recording recording = new Recording()) {
                recording.enable("jdk.VirtualThreadPinned").withThreshold(Duration.ZERO).withStackTrace();
                try (Guard guard = holder.lock(arguments[1]).acquire()) {
                    // Once without the recording: the JVM pins whoever waits for it to link the first call of something.
                    together(1, wait);
                    limit.set(WAIT);
                    recording.start();
                    waited = together(THREADS, wait);
                    check(guard.held(), "the holder holds");
                    standing(lock, guard);
                    recording.stop();
                }
                together(1, turn);
                pinned = pinned(recording);
            }
            try (Recording recording = new Recording()) {
                recording.enable("jdk.VirtualThreadPinned").withThreshold(Duration.ZERO).withStackTrace();
                recording.start();
                together(THREADS, turn);
                recording.stop();
                pinned += pinned(recording);
            }
            check(turns.get() == THREADS + 1, turns + " turns");
            double ratio = (double) waited.toNanos() / parked.toNanos();
            System.out.printf(
                    "%d virtual threads: %d ms waiting, %d ms plainly parked, ratio %.2f; %d pinned%n",
                    THREADS, waited.toMillis(), parked.toMillis(), ratio, pinned);
            check(refused.get() == THREADS + 1, refused + " were refused");
            check(pinned == 0, "nobody is pinned");
            check(FAILURES.get() == 0, FAILURES + " failures");
            check(lock.queue().isEmpty(), "nothing is left");
        }
    }

    /** As many that wait without limit: parked, all of them, and others can work. They get the lock one after the other. */
    private static void standing(LeaseholdLock lock, Guard guard) throws Exception {
        List<Thread> waiting = start(THREADS, () -> lock.acquire().close());
        until("all stand in the queue", () -> lock.queue().size() == THREADS + 1);
        until("all are parked", () -> waiting.stream().allMatch(it -> it.getState() == Thread.State.WAITING));
        AtomicInteger worked = new AtomicInteger();
        together(THREADS, worked::incrementAndGet);
        check(worked.get() == THREADS, worked + " worked meanwhile");
        check(waiting.stream().allMatch(Thread::isAlive), "they wait still");
        guard.release();
        for (Thread thread : waiting) {
            thread.join();
        }
    }

    private static void until(String what, java.util.concurrent.Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + Duration.ofMinutes(3).toNanos();
        while (!condition.call()) {
            check(System.nanoTime() < deadline, what);
            Thread.sleep(10);
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static long pinned(Recording recording) throws Exception {
        var file = Files.createTempFile("virtual", ".jfr");
        recording.dump(file);
        var events = RecordingFile.readAllEvents(file);
        Files.delete(file);
        events.stream().limit(3).forEach(System.out::println);
        return events.stream().filter(it -> it.getEventType().getName().equals("jdk.VirtualThreadPinned")).count();
    }

    private static final AtomicInteger FAILURES = new AtomicInteger();

    private static List<Thread> start(int count, Work work) {
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            threads.add(Thread.ofVirtual().start(() -> {
                try {
                    work.run();
                } catch (Exception error) {
                    if (FAILURES.incrementAndGet() == 1) {
                        error.printStackTrace();
                    }
                }
            }));
        }
        return threads;
    }

    private static Duration together(int count, Work work) throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        List<Thread> threads = start(count, () -> {
            go.await();
            work.run();
        });
        long begun = System.nanoTime();
        go.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        check(FAILURES.get() == 0, FAILURES + " failures");
        return Duration.ofNanos(System.nanoTime() - begun);
    }

    private static void check(boolean is, String what) {
        if (!is) {
            throw new AssertionError("not so: " + what);
        }
    }
}

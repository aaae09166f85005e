package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Cycle after cycle: threads, file descriptors and native memory stay as they are. -Dleasehold.cycles=10000 for all of it. */
final class GrowthTest {
    private static final int CYCLES = Integer.getInteger("leasehold.cycles", 1500);
    /** Megabytes by which the process may breathe: the Java heap is as large as it gets from the start. */
    private static final long BREATH = 8;

    private record Size(long threads, long files, long megabytes) {
        static Size now() throws IOException {
            try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"));
                    Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
                String status = Files.readString(Path.of("/proc/self/status"));
                long kilobytes = Long.parseLong(status.replaceAll("(?s).*RssAnon:\\s+(\\d+) kB.*", "$1"));
                return new Size(threads.count(), files.count(), kilobytes / 1024);
            }
        }
    }

    private static void cycles(LeaseholdClient client, LeaseholdLock lock, int count) throws Exception {
        for (int cycle = 0; cycle < count; cycle++) {
            switch (cycle % 4) {
                case 0 -> lock.acquire().close();
                case 1 -> lock.acquireAsync().thenCompose(Guard::releaseAsync).get();
                case 2 -> {
                    try (Guard guard = lock.acquire()) {
                        guard.lost();
                        lock.acquireAsync().cancel(true);
                    }
                }
                default -> {
                    lock.lock();
                    lock.unlock();
                    try (LeaseholdClient other = LeaseholdClient.connect("memory://growth")) {
                        other.lock("/x").acquire();
                    }
                }
            }
        }
    }

    @Test
    void nothingGrows() throws Exception {
        try (LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint)) {
            LeaseholdLock lock = client.lock(Etcd.name());
            // Compilers, caches, allocators and the heap reach their size.
            cycles(client, lock, Math.max(500, CYCLES / 3));
            System.gc();
            Size before = Size.now();
            cycles(client, lock, CYCLES);
            System.gc();
            Size after = Size.now();
            System.out.println(CYCLES + " cycles: " + before + " before, " + after + " after");
            assertTrue(after.threads <= before.threads + 2, after + " after " + before);
            assertTrue(after.files <= before.files + 2, after + " after " + before);
            assertTrue(after.megabytes <= before.megabytes + BREATH, after + " after " + before);
        }
    }
}

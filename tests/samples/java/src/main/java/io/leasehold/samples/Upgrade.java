package io.leasehold.samples;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A rolling upgrade: instances with jetcd's Lock client and instances with leasehold, each a process, share one queue. Each kind
 * waits behind the other, and one of each is killed while it holds. A lock class that queues by itself is another matter:
 * docs/migrating-java.md says why it must be stopped first.
 */
final class Upgrade {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private Upgrade() {}

    static void play(String endpoint) throws Exception {
        System.out.println("A rolling upgrade: two instances with jetcd's Lock client (old), two with leasehold (new)");
        try (LeaseholdClient observer = LeaseholdClient.connect(endpoint);
                Running old1 = new Running("old", "old-1", endpoint);
                Running new1 = new Running("new", "new-1", endpoint);
                Running old2 = new Running("old", "old-2", endpoint);
                Running new2 = new Running("new", "new-2", endpoint)) {
            LeaseholdLock lock = observer.lock(Instance.NAME);
            List<Running> order = List.of(old1, new1, old2, new2);
            // Both directions: new behind old, old behind new.
            queue(lock, order);
            for (Running instance : order) {
                instance.expect("acquired");
                System.out.printf("  %s holds, token %d, %d behind it%n", instance.name, holder(lock), lock.queue().size() - 1);
                Samples.check(lock.queue().size() == order.size() - order.indexOf(instance), "one holds, the others wait");
                instance.tell("release");
                instance.expect("released");
            }
            // One of each kind is killed while it holds; the other kind is next.
            killed(lock, old1, new1);
            killed(lock, new2, old2);
            until("nothing is left", () -> lock.queue().isEmpty());
        }
        System.out.println("ok: one queue, both directions, one of each killed\n");
    }

    private static void killed(LeaseholdLock lock, Running victim, Running next) throws Exception {
        queue(lock, List.of(victim, next));
        victim.expect("acquired");
        long begun = System.nanoTime();
        victim.process.destroyForcibly().waitFor();
        next.expect("acquired");
        double seconds = (System.nanoTime() - begun) / 1e9;
        System.out.printf("  %s is killed while it holds; %s takes over after %.1f s%n", victim.name, next.name, seconds);
        Samples.check(seconds < Instance.TTL.toSeconds() + 2, "within the TTL and two seconds");
        next.tell("release");
        next.expect("released");
    }

    /** Has them queue in this order. */
    private static void queue(LeaseholdLock lock, List<Running> instances) throws Exception {
        for (int index = 0; index < instances.size(); index++) {
            instances.get(index).tell("acquire");
            int standing = index + 1;
            until("it stands in the queue", () -> lock.queue().size() == standing);
        }
    }

    private static long holder(LeaseholdLock lock) {
        return lock.queue().get(0).token();
    }

    private static void until(String what, java.util.function.BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            Samples.check(System.nanoTime() < deadline, what);
            Thread.sleep(20);
        }
    }

    /** An instance: the same program in a process of its own. */
    private static final class Running implements AutoCloseable {
        final String name;
        final Process process;
        private final BufferedReader out;
        private final Writer in;

        Running(String kind, String name, String endpoint) throws IOException {
            this.name = name;
            List<String> command = new ArrayList<>(List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-cp",
                    System.getProperty("java.class.path"),
                    Samples.class.getName(),
                    "instance",
                    kind,
                    endpoint));
            process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            in = process.outputWriter(StandardCharsets.UTF_8);
            expect("ready");
        }

        void tell(String what) throws IOException {
            in.write(what + "\n");
            in.flush();
        }

        void expect(String what) throws IOException {
            String line = out.readLine();
            Samples.check(line != null && line.startsWith(what), name + " said " + line + " instead of " + what);
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }
    }
}

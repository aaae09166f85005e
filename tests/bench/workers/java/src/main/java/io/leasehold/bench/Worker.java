package io.leasehold.bench;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The bench worker of the Java API: for every number on stdin, so many cycles of a lock of its own, and the time they took. */
public final class Worker {
    private static final int WARM_UP = 20_000;

    private Worker() {}

    /** One acquire and release. */
    private interface Cycle {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String endpoint = option(arguments, "--endpoint");
        String mode = option(arguments, "--mode");
        // The compilers' work, which would otherwise go on beside what is measured: the same calls, on a store that is faster.
        try (LeaseholdClient client = LeaseholdClient.connect("memory://warm-up")) {
            Cycle cycle = cycle(client, mode);
            for (int index = 0; index < WARM_UP; index++) {
                cycle.run();
            }
        }
        try (LeaseholdClient client = LeaseholdClient.connect(endpoint)) {
            Cycle cycle = cycle(client, mode);
            cycle.run();
            System.out.println("ready");
            var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            String line;
            while ((line = in.readLine()) != null) {
                long count = Long.parseLong(line.trim());
                long begun = System.nanoTime();
                for (long index = 0; index < count; index++) {
                    cycle.run();
                }
                System.out.println(System.nanoTime() - begun);
            }
        }
    }

    private static Cycle cycle(LeaseholdClient client, String mode) {
        LeaseholdLock lock = client.lock("/bench/java-" + mode + "-" + ProcessHandle.current().pid());
        return switch (mode) {
            case "sync" -> () -> {
                Guard guard = lock.acquire();
                guard.release();
            };
            case "async" -> () -> lock.acquireAsync().thenCompose(Guard::releaseAsync).get();
            default -> throw new IllegalArgumentException("--mode is sync or async, not " + mode);
        };
    }

    private static String option(String[] arguments, String name) {
        for (int index = 0; index + 1 < arguments.length; index += 2) {
            if (arguments[index].equals(name)) {
                return arguments[index + 1];
            }
        }
        throw new IllegalArgumentException(name + " is missing");
    }
}

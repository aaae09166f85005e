package io.leasehold.bench.compare;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.SynchronousQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.test.InstanceSpec;
import org.apache.curator.test.TestingServer;

/**
 * leasehold beside jetcd's Lock client (both on one etcd), Redisson (a local Redis, no replica) and Curator (an in-process
 * ZooKeeper): the same cycles in interleaved rounds, shown as ratios to leasehold. The stores differ in what they promise: a
 * write of etcd and ZooKeeper is agreed on, one of a single Redis is in one memory.
 */
public final class Compare {
    private static final Pattern ENDPOINT = Pattern.compile("\"(https?://[^\"]+)\"");
    private static final int ROUNDS = Integer.getInteger("compare.rounds", 10);
    private static final int CYCLES = 100;
    private static final int HAND_OFFS = 20;

    /** ZooKeeper refuses the 61st connection of one host otherwise. */
    private static final InstanceSpec MANY_CONNECTIONS = new InstanceSpec(null, -1, -1, -1, true, -1, -1, 200);

    private Compare() {}

    public static void main(String[] arguments) throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Process etcd = new ProcessBuilder(System.getProperty("compare.etcd"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        Process redis = new ProcessBuilder(
                        "redis-server", "--bind", "127.0.0.1", "--port", "" + port, "--save", "", "--appendonly", "no")
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try (var out = new BufferedReader(new InputStreamReader(etcd.getInputStream(), StandardCharsets.UTF_8));
                TestingServer zookeeper = new TestingServer(MANY_CONNECTIONS, true)) {
            Matcher endpoint = ENDPOINT.matcher(out.readLine());
            if (!endpoint.find()) {
                throw new IOException("no etcd");
            }
            Map<String, Locks.Maker> makers = new LinkedHashMap<>();
            makers.put("leasehold", Locks.leasehold(endpoint.group(1)));
            makers.put("jetcd", Locks.jetcd(endpoint.group(1)));
            makers.put("redisson", Locks.redisson("redis://127.0.0.1:" + port));
            makers.put("curator", Locks.curator(zookeeper.getConnectString()));
            compare("uncontended, acquire+release", makers, Compare::uncontended);
            compare("hand-off, release to acquired", makers, Compare::handOff);
            compare("8 contenders, one cycle", makers, maker -> contended(maker, 8, 5));
            compare("64 contenders, one cycle", makers, maker -> contended(maker, 64, 1));
        } finally {
            redis.destroy();
            etcd.getOutputStream().close();
            etcd.waitFor();
        }
        System.exit(0);
    }

    /** Microseconds of one thing. */
    private interface Measure {
        double of(Locks.Maker maker) throws Exception;
    }

    private static void compare(String what, Map<String, Locks.Maker> makers, Measure measure) throws Exception {
        Map<String, List<Double>> times = new LinkedHashMap<>();
        for (int round = 0; round < ROUNDS + 1; round++) {
            for (Map.Entry<String, Locks.Maker> maker : makers.entrySet()) {
                double micros = measure.of(maker.getValue());
                // The first round warms up.
                if (round > 0) {
                    times.computeIfAbsent(maker.getKey(), name -> new ArrayList<>()).add(micros);
                }
            }
        }
        double ours = median(times.get("leasehold"));
        times.forEach((name, taken) -> System.out.printf(
                "%-30s %-10s %9.0f µs  %6.2f x%n", what, name, median(taken), median(taken) / ours));
    }

    private static double median(List<Double> values) {
        double[] sorted = values.stream().mapToDouble(value -> value).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    private static double uncontended(Locks.Maker maker) throws Exception {
        try (Locks lock = maker.make("/compare/alone")) {
            for (int cycle = 0; cycle < CYCLES / 2; cycle++) {
                lock.acquire();
                lock.release();
            }
            long begun = System.nanoTime();
            for (int cycle = 0; cycle < CYCLES; cycle++) {
                lock.acquire();
                lock.release();
            }
            return (System.nanoTime() - begun) / 1e3 / CYCLES;
        }
    }

    /** From the call of one client's release to the return of another client's acquire, the middle one of several. */
    private static double handOff(Locks.Maker maker) throws Exception {
        double[] times = new double[HAND_OFFS];
        SynchronousQueue<Long> acquired = new SynchronousQueue<>();
        CyclicBarrier held = new CyclicBarrier(2);
        Thread waiter = new Thread(() -> {
            try (Locks lock = maker.make("/compare/hand")) {
                for (int turn = 0; turn < HAND_OFFS; turn++) {
                    held.await();
                    lock.acquire();
                    acquired.put(System.nanoTime());
                    lock.release();
                }
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        try (Locks lock = maker.make("/compare/hand")) {
            waiter.start();
            for (int turn = 0; turn < HAND_OFFS; turn++) {
                lock.acquire();
                held.await();
                // There is no way to see, in every product, that the other one stands in the queue.
                Thread.sleep(30);
                long released = System.nanoTime();
                lock.release();
                times[turn] = (acquired.take() - released) / 1e3;
            }
        }
        waiter.join();
        Arrays.sort(times);
        return times[HAND_OFFS / 2];
    }

    /** So many clients, each with a thread, cycle one name. */
    private static double contended(Locks.Maker maker, int count, int cycles) throws Exception {
        CyclicBarrier start = new CyclicBarrier(count + 1);
        CyclicBarrier end = new CyclicBarrier(count + 1);
        for (int number = 0; number < count; number++) {
            new Thread(() -> {
                        try (Locks lock = maker.make("/compare/many")) {
                            start.await();
                            for (int cycle = 0; cycle < cycles; cycle++) {
                                lock.acquire();
                                lock.release();
                            }
                            end.await();
                        } catch (Exception error) {
                            throw new IllegalStateException(error);
                        }
                    })
                    .start();
        }
        start.await();
        long begun = System.nanoTime();
        end.await();
        return (System.nanoTime() - begun) / 1e3 / count / cycles;
    }
}

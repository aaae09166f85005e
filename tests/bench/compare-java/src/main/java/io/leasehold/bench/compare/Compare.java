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
        List<String> wanted = List.of(arguments);
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
            Map<String, Locks.Product> products = new LinkedHashMap<>();
            products.put("leasehold", Locks.leasehold(endpoint.group(1)));
            products.put("jetcd", Locks.jetcd(endpoint.group(1)));
            products.put("redisson", Locks.redisson("redis://127.0.0.1:" + port));
            products.put("curator", Locks.curator(zookeeper.getConnectString()));
            Map<String, Measure> measures = new LinkedHashMap<>();
            measures.put("uncontended, acquire+release", Compare::uncontended);
            measures.put("hand-off, release to acquired", Compare::handOff);
            measures.put("8 clients, one cycle", product -> contended(product, 8, 1, 10));
            measures.put("64 clients, one cycle", product -> contended(product, 64, 1, 2));
            measures.put("64 threads of a client", product -> contended(product, 1, 64, 2));
            for (Map.Entry<String, Measure> measure : measures.entrySet()) {
                if (wanted.isEmpty() || wanted.stream().anyMatch(measure.getKey()::startsWith)) {
                    compare(measure.getKey(), products, measure.getValue());
                }
            }
        } finally {
            redis.destroy();
            etcd.getOutputStream().close();
            etcd.waitFor();
        }
        System.exit(0);
    }

    /** Microseconds of one thing. */
    private interface Measure {
        double of(Locks.Product product) throws Exception;
    }

    private static void compare(String what, Map<String, Locks.Product> products, Measure measure) throws Exception {
        Map<String, List<Double>> times = new LinkedHashMap<>();
        for (int round = 0; round < ROUNDS + 1; round++) {
            for (Map.Entry<String, Locks.Product> product : products.entrySet()) {
                double micros = measure.of(product.getValue());
                // The first round warms up.
                if (round > 0) {
                    times.computeIfAbsent(product.getKey(), name -> new ArrayList<>()).add(micros);
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

    private static double uncontended(Locks.Product product) throws Exception {
        try (Locks client = product.connect()) {
            Locks.Lock lock = client.lock("/compare/alone");
            cycle(lock, CYCLES / 2);
            long begun = System.nanoTime();
            cycle(lock, CYCLES);
            return micros(begun) / CYCLES;
        }
    }

    /** From the call of one client's release to the return of another client's acquire, the middle one of several. */
    private static double handOff(Locks.Product product) throws Exception {
        double[] times = new double[HAND_OFFS];
        SynchronousQueue<Long> acquired = new SynchronousQueue<>();
        CyclicBarrier held = new CyclicBarrier(2);
        Thread waiter = start(() -> {
            try (Locks client = product.connect()) {
                Locks.Lock lock = client.lock("/compare/hand");
                for (int turn = 0; turn < HAND_OFFS; turn++) {
                    held.await();
                    lock.acquire();
                    acquired.put(System.nanoTime());
                    lock.release();
                }
            }
        });
        try (Locks client = product.connect()) {
            Locks.Lock lock = client.lock("/compare/hand");
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

    /** So many clients, each with so many threads, cycle one name. Each thread has done so once before: all are connected. */
    private static double contended(Locks.Product product, int clients, int threads, int cycles) throws Exception {
        int contenders = clients * threads;
        CyclicBarrier start = new CyclicBarrier(contenders + 1);
        CyclicBarrier end = new CyclicBarrier(contenders + 1);
        List<Locks> connected = new ArrayList<>();
        try {
            for (int number = 0; number < clients; number++) {
                Locks client = product.connect();
                connected.add(client);
                for (int thread = 0; thread < threads; thread++) {
                    start(() -> {
                        Locks.Lock lock = client.lock("/compare/many");
                        cycle(lock, 1);
                        start.await();
                        cycle(lock, cycles);
                        end.await();
                    });
                }
            }
            start.await();
            long begun = System.nanoTime();
            end.await();
            return micros(begun) / contenders / cycles;
        } finally {
            connected.forEach(Locks::close);
        }
    }

    private static void cycle(Locks.Lock lock, int times) throws Exception {
        for (int time = 0; time < times; time++) {
            lock.acquire();
            lock.release();
        }
    }

    private static double micros(long begun) {
        return (System.nanoTime() - begun) / 1e3;
    }

    /** What a thread does. */
    private interface Work {
        void run() throws Exception;
    }

    private static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                // Without it the others would wait for ever.
                error.printStackTrace();
                System.exit(1);
            }
        });
        thread.start();
        return thread;
    }
}

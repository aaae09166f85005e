package io.leasehold.programs;

import io.leasehold.Committed;
import io.leasehold.Guard;
import io.leasehold.GuardedTxn;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdElection;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.Subscription;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.awaitility.Awaitility;

/** Programs that a test runs in a JVM of their own: {@code Program <what> <endpoint> <name>}. */
public final class Program {
    private Program() {}

    public static void main(String[] arguments) throws Exception {
        String endpoint = arguments[1];
        String name = arguments[2];
        switch (arguments[0]) {
            case "return-from-main" -> returnFromMain(endpoint, name);
            case "pending" -> pending(endpoint, name);
            case "tour" -> tour(endpoint, name);
            case "class-loaders" -> classLoaders(endpoint, name);
            case "unloading" -> unloading(endpoint, name);
            case "forget" -> forget(endpoint, name);
            case "too-large" -> tooLarge(name);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Returns with a client open, a lock held, a waiter waiting and a listener listening. */
    private static void returnFromMain(String endpoint, String name) throws Exception {
        LeaseholdClient client = LeaseholdClient.connect(endpoint);
        Guard guard = client.lock(name).acquire();
        guard.onLost(reason -> System.out.println(reason));
        client.onState(state -> System.out.println(state));
        client.lock(name).acquireAsync().thenAccept(never -> System.out.println(never));
        System.out.println("returning");
    }

    /** Ends while operations are at every stage, in the way that the name says: by returning, exiting or halting. */
    private static void pending(String endpoint, String name) throws Exception {
        LeaseholdClient client = LeaseholdClient.connect(endpoint);
        List<CompletableFuture<?>> futures = new ArrayList<>();
        for (int index = 0; index < 20; index++) {
            LeaseholdLock lock = client.lock(name + "/" + index % 4);
            futures.add(lock.acquireAsync().thenCompose(Guard::releaseAsync));
            futures.add(lock.acquireAsync(Duration.ofMillis(3)).thenAccept(guard -> {}));
            futures.add(lock.queueAsync());
            futures.add(client.pingAsync());
            Thread blocked = new Thread(() -> {
                lock.lock();
                // One that ended would be told of, and its lock released.
                while (true) {
                    LockSupport.park();
                }
            });
            blocked.setDaemon(true);
            blocked.start();
        }
        // One of the pings: the others may have to wait for ever.
        futures.get(4 * (name.hashCode() & 15) + 3).join();
        if (name.endsWith("exit")) {
            System.exit(0);
        }
    }

    /** Uses every entry point once, and gives some of them nonsense. */
    private static void tour(String endpoint, String name) throws Exception {
        try (LeaseholdClient client = LeaseholdClient.builder(endpoint).identity("tour 𝄞").build()) {
            client.ping();
            client.identity();
            client.onState(state -> {}).close();
            LeaseholdLock lock = client.lock(name);
            for (int round = 0; round < 50; round++) {
                try (Guard guard = lock.acquire()) {
                    guard.held();
                    guard.remaining();
                    guard.lost();
                    guard.put("/data" + name, "x".repeat(round * 100));
                    guard.txn().get("/data" + name).get("/none" + name).put("/more" + name, "").commit();
                    guard.delete("/data" + name);
                    guard.delete("/more" + name);
                    guard.extend(Duration.ofSeconds(5));
                    lock.queue();
                    List<CompletableFuture<Guard>> waiting = new ArrayList<>();
                    for (int index = 0; index < 20; index++) {
                        waiting.add(lock.acquireAsync());
                    }
                    lock.queueAsync().join();
                    waiting.forEach(future -> future.cancel(true));
                    lock.tryLock();
                }
            }
            client.readWriteLock(name + "/rw").readLock().withLock(Duration.ofSeconds(5), client::metrics);
            client.semaphore(name + "/s", 3).acquire(2);
            client.semaphore(name + "/s", 3).release(2);
            LeaseholdElection election = client.election(name + "/e");
            Subscription observer = election.observe(observed -> {});
            try (Guard leading = election.campaign("x")) {
                leading.proclaim("y");
                election.leader();
                election.leaderAsync().join();
            }
            observer.close();
            lock.withLocalFirst().withLinger(Duration.ofMillis(10)).acquire().close();
            lock.lock();
            lock.forceRelease(lock.heldByCurrentThread().orElseThrow().token());
            expect(lock::unlock);
            expect(() -> client.lock("").lock());
            expect(() -> client.lock("\uD800").tryLock());
            expect(() -> LeaseholdClient.connect("nonsense://"));
            expect(() -> LeaseholdClient.builder(endpoint).ttl(Duration.ZERO).build());
        }
        System.gc();
        System.out.println("seen everything");
    }

    /** Reads more than fits into this JVM (-Xmx32m), while others wait for their results in the same queue. */
    private static void tooLarge(String name) throws Exception {
        try (LeaseholdClient client = LeaseholdClient.connect("memory://large");
                Guard guard = client.lock(name).acquire()) {
            GuardedTxn everything = guard.txn();
            for (int key = 0; key < 64; key++) {
                guard.put(("/large/" + key).getBytes(StandardCharsets.UTF_8), new byte[1_000_000]);
                everything.get("/large/" + key);
            }
            for (int round = 0; round < 5; round++) {
                List<CompletableFuture<?>> others = new ArrayList<>();
                CompletableFuture<Committed> large = everything.commitAsync();
                for (int other = 0; other < 30; other++) {
                    others.add(client.lock(name + other).acquireAsync().thenCompose(Guard::releaseAsync));
                }
                CompletableFuture.allOf(others.toArray(CompletableFuture[]::new)).get(30, TimeUnit.SECONDS);
                try {
                    large.get(30, TimeUnit.SECONDS);
                    throw new AssertionError("it fitted");
                } catch (ExecutionException error) {
                    if (!error.getCause().getMessage().contains("memory")) {
                        throw error;
                    }
                }
            }
            try {
                everything.commit();
                throw new AssertionError("it fitted");
            } catch (OutOfMemoryError | LeaseholdException expected) {
                client.ping();
            }
        }
        System.out.println("survived");
    }

    private static void expect(Runnable failing) {
        try {
            failing.run();
        } catch (RuntimeException expected) {
            return;
        }
        throw new AssertionError("nothing was thrown");
    }

    /** One that has everything of ours for itself. */
    private static URLClassLoader loader() throws Exception {
        List<URL> path = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(System.getProperty("path.separator"))) {
            path.add(Path.of(entry).toUri().toURL());
        }
        return new URLClassLoader(path.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    private static void runIn(ClassLoader loader, String what, String endpoint, String name) throws Exception {
        Class<?> program = loader.loadClass(Program.class.getName());
        if (program == Program.class) {
            throw new AssertionError("not a class of its own");
        }
        program.getMethod("main", String[].class).invoke(null, (Object) new String[] {what, endpoint, name});
    }

    /** Loads leasehold twice, with a class loader each, and lets both of them contend. */
    private static void classLoaders(String endpoint, String name) throws Exception {
        try (URLClassLoader first = loader();
                URLClassLoader second = loader()) {
            for (ClassLoader loader : Arrays.asList(first, second, first)) {
                runIn(loader, "tour", endpoint, name);
            }
        }
        tour(endpoint, name);
        System.out.println("three times in one JVM");
    }

    /**
     * As an application server undeploys an application: its threads end, its classes go, and what stays of the library does no
     * harm. Also where it has forgotten to close its client.
     */
    private static void unloading(String endpoint, String name) throws Exception {
        for (String what : List.of("tour", "forget")) {
            WeakReference<ClassLoader> used = use(what, endpoint, name);
            // Threads for callbacks end when they have been idle for some seconds.
            Awaitility.await("its threads have ended, and the class loader is gone: " + what)
                    .atMost(Duration.ofMinutes(2))
                    .until(() -> {
                        System.gc();
                        return used.get() == null && threads().isEmpty();
                    });
        }
        tour(endpoint, name);
        System.out.println("unloaded");
    }

    /** Those of Java that are ours. */
    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(thread -> thread.startsWith("leasehold"))
                .toList();
    }

    private static WeakReference<ClassLoader> use(String what, String endpoint, String name) throws Exception {
        try (URLClassLoader loader = loader()) {
            runIn(loader, what, endpoint, name);
            if (threads().isEmpty() && what.equals("forget")) {
                throw new AssertionError("there was nothing to end");
            }
            return new WeakReference<>(loader);
        }
    }

    /** Leaves a client open that has worked. */
    private static void forget(String endpoint, String name) throws Exception {
        LeaseholdClient client = LeaseholdClient.connect(endpoint);
        client.lock(name).acquireAsync().thenCompose(Guard::releaseAsync).get(30, TimeUnit.SECONDS);
    }
}

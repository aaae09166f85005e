package io.leasehold.test;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** An etcd that runs as a child of this process, on loopback. */
final class EtcdProcess implements AutoCloseable {
    /** Names the program, where it is not on the {@code PATH}. */
    static final String PROPERTY = "leasehold.test.etcd";

    private static final Duration START_LIMIT = Duration.ofSeconds(30);
    private static final int TRIES = 3;

    private final Process process;
    private final Path directory;
    private final String url;
    private final List<Socket> ports;
    private final Thread hook = new Thread(this::end, "leasehold-test-etcd-end");

    private EtcdProcess(Process process, Path directory, String url, List<Socket> ports) {
        this.process = process;
        this.directory = directory;
        this.url = url;
        this.ports = ports;
    }

    static EtcdProcess start() {
        Path program = find();
        IllegalStateException last = null;
        // Somebody else may take a port between looking and listening.
        for (int attempt = 0; attempt < TRIES; attempt++) {
            try {
                return start(program);
            } catch (IllegalStateException failed) {
                last = failed;
            } catch (IOException error) {
                throw new UncheckedIOException("etcd cannot be started", error);
            }
        }
        throw last;
    }

    String url() {
        return url;
    }

    @Override
    public void close() {
        Runtime.getRuntime().removeShutdownHook(hook);
        end();
    }

    private static EtcdProcess start(Path program) throws IOException {
        Path directory = Files.createTempDirectory("leasehold-test-");
        List<Socket> ports = List.of(reservePort(), reservePort());
        String client = "http://127.0.0.1:" + ports.get(0).getLocalPort();
        String peer = "http://127.0.0.1:" + ports.get(1).getLocalPort();
        if (!System.getProperty("os.name").equals("Linux")) {
            // There, etcd could not have them as long as we do.
            giveBack(ports);
        }
        ProcessBuilder builder = new ProcessBuilder(List.of(
                program.toString(),
                "--name=test",
                "--data-dir=" + directory.resolve("data"),
                "--listen-client-urls=" + client,
                "--advertise-client-urls=" + client,
                "--listen-peer-urls=" + peer,
                "--initial-advertise-peer-urls=" + peer,
                "--initial-cluster=test=" + peer,
                "--unsafe-no-fsync"));
        Path log = directory.resolve("etcd.log");
        builder.redirectErrorStream(true).redirectOutput(log.toFile());
        EtcdProcess started = new EtcdProcess(builder.start(), directory, client, ports);
        Runtime.getRuntime().addShutdownHook(started.hook);
        try {
            started.awaitReady(log);
        } catch (IllegalStateException failed) {
            started.close();
            throw failed;
        }
        return started;
    }

    private void awaitReady(Path log) throws IOException {
        long deadline = System.nanoTime() + START_LIMIT.toNanos();
        try (LeaseholdClient client =
                LeaseholdClient.builder(url).requestTimeout(Duration.ofSeconds(1)).build()) {
            while (true) {
                try {
                    client.ping();
                    // Whoever answers there, it is not this one once it has ended.
                    if (process.isAlive()) {
                        return;
                    }
                    throw new IllegalStateException("etcd has ended, and another process listens on its port; it said:\n"
                            + Files.readString(log, StandardCharsets.UTF_8));
                } catch (LeaseholdException notYet) {
                    if (!process.isAlive() || System.nanoTime() - deadline > 0) {
                        throw new IllegalStateException("etcd did not start within " + START_LIMIT.toSeconds() + " s; it said:\n"
                                + Files.readString(log, StandardCharsets.UTF_8));
                    }
                }
            }
        }
    }

    private void end() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        giveBack(ports);
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException ignored) {
            // A temporary directory that stays is no reason to fail a test.
        }
    }

    private static Path find() {
        String named = System.getProperty(PROPERTY);
        if (named != null) {
            return Path.of(named);
        }
        String path = Optional.ofNullable(System.getenv("PATH")).orElse("");
        return Stream.of(path.split(File.pathSeparator))
                .filter(each -> !each.isEmpty())
                .map(each -> Path.of(each, "etcd"))
                .filter(Files::isExecutable)
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("there is no etcd on the PATH; install one, name one with -D" + PROPERTY
                        + "=…, or use LeaseholdExtension.memory()"));
    }

    /**
     * Bound, and never listening. While it stands, Linux gives its port to nobody else who asks for any, and etcd, which marks its
     * listeners the same way, can have it.
     */
    private static Socket reservePort() throws IOException {
        Socket socket = new Socket();
        socket.setReuseAddress(true);
        socket.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        return socket;
    }

    private static void giveBack(List<Socket> ports) {
        for (Socket port : ports) {
            try {
                port.close();
            } catch (IOException ignored) {
                // It ends with the process.
            }
        }
    }
}

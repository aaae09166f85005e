package io.leasehold;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.awaitility.Awaitility;

/** A real etcd on loopback, from the project's harness. It ends with this process at the latest. */
final class Etcd implements AutoCloseable {
    static final Path ROOT = Path.of(System.getProperty("leasehold.root")).toAbsolutePath().normalize();
    /** Cargo's, with the harness and the native library. */
    static final Path TARGET = Path.of(System.getProperty("leasehold.target"));

    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final AtomicLong NAMES = new AtomicLong();

    private final Process process;
    private final Writer commands;
    private final BufferedReader answers;
    final String endpoint;

    private Etcd() {
        Path program = TARGET.resolve("debug/leasehold-etcd");
        if (!Files.isExecutable(program)) {
            throw new IllegalStateException("there is no " + program + "; run: cargo build -p leasehold-etcd");
        }
        try {
            process = new ProcessBuilder(program.toString())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            commands = process.outputWriter();
            answers = process.inputReader();
            endpoint = answer().getAsJsonArray("endpoints").get(0).getAsString();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static final class Shared {
        static final Etcd ETCD = new Etcd();
    }

    /** The one of all tests that do it no harm. */
    static Etcd shared() {
        return Shared.ETCD;
    }

    /** One for a test alone. */
    static Etcd start() {
        return new Etcd();
    }

    /** Does something to the server: {@code freeze 0}, say. */
    void tell(String command) {
        try {
            commands.write(command + "\n");
            commands.flush();
            JsonObject answer = answer();
            if (!answer.get("ok").getAsBoolean()) {
                throw new IllegalStateException(command + ": " + answer);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private JsonObject answer() throws IOException {
        String line = answers.readLine();
        if (line == null) {
            throw new IOException("the etcd of the harness has ended");
        }
        return JsonParser.parseString(line).getAsJsonObject();
    }

    @Override
    public void close() {
        try {
            commands.close();
            process.waitFor();
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A name that no other test uses. */
    static String name() {
        return "/java/" + ProcessHandle.current().pid() + "/" + NAMES.incrementAndGet();
    }

    /** Waits for a condition, which the same thread asks: what it holds is its own. */
    static void until(String what, BooleanSupplier condition) {
        Awaitility.await(what)
                .pollInSameThread()
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(5))
                .atMost(PATIENCE)
                .until(condition::getAsBoolean);
    }
}

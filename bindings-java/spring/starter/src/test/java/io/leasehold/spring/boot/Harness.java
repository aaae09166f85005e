package io.leasehold.spring.boot;

import com.jayway.jsonpath.JsonPath;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A real etcd of a test, by the project's harness. */
final class Harness implements AutoCloseable {
    private final Process process;
    /** What the harness says of it, as JSON. */
    final String told;

    Harness(String... options) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("leasehold.target"), "debug/leasehold-etcd").toString());
        command.addAll(List.of(options));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        told = process.inputReader().readLine();
    }

    String endpoint() {
        return JsonPath.read(told, "$.endpoints[0]");
    }

    /** As a container or a service would have it mapped. */
    int port() {
        return URI.create(endpoint()).getPort();
    }

    @Override
    public void close() throws IOException {
        process.outputWriter().close();
        try {
            if (!process.waitFor(2, TimeUnit.MINUTES)) {
                process.destroyForcibly();
                throw new IllegalStateException("the harness does not end");
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}

package io.leasehold;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Finds a JDK 25 on this machine: named in {@code LEASEHOLD_JDK_25}, this one, or where distributions put theirs. */
final class NewerJdk {
    private static final int NEWER = 25;

    private NewerJdk() {}

    static @Nullable Path find() {
        String named = System.getenv("LEASEHOLD_JDK_25");
        if (named != null) {
            return Path.of(named, "bin", "java");
        }
        if (Runtime.version().feature() >= NEWER) {
            return Path.of(System.getProperty("java.home"), "bin", "java");
        }
        try (Stream<Path> installed = Files.list(Path.of("/usr/lib/jvm"))) {
            List<Path> found = installed.filter(path -> path.getFileName().toString().matches(".*\\b" + NEWER + "\\b.*"))
                    .map(path -> path.resolve("bin/java"))
                    .filter(Files::isExecutable)
                    .toList();
            return found.isEmpty() ? null : found.get(0);
        } catch (IOException noSuchDirectory) {
            return null;
        }
    }
}

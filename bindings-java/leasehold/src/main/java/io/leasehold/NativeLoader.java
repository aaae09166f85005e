package io.leasehold;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Finds and loads the native library.
 *
 * <p>It comes in the jar and is copied into a directory that is new and only ours, which makes two class loaders, two versions
 * and two users on one machine possible: the JVM loads one file for one class loader only, and nobody else can put another
 * file there. Once it is loaded the copy is removed; the JVM keeps what it has mapped. What a JVM leaves that is killed in
 * between, the next one removes.
 */
final class NativeLoader {
    /** A file to load instead of the one in the jar. */
    static final String PATH = "leasehold.native.path";
    /** Where the copy goes instead of the directory for temporary files. */
    static final String DIR = "leasehold.native.dir";

    private static final String LIBRARY = "leasehold_java";
    private static final String COPY = "leasehold-java-";
    /** Nobody needs longer from making a copy to removing it: a moment. */
    private static final Duration ABANDONED = Duration.ofMinutes(10);

    private final List<String> tried = new ArrayList<>();

    private NativeLoader() {}

    /** Loads the library. Returns what was wrong, with all that was tried; null if it is loaded. */
    static @Nullable String load() {
        NativeLoader loader = new NativeLoader();
        if (loader.tryEverything()) {
            return null;
        }
        return "the native library of leasehold could not be loaded on " + platform() + " (Java "
                + System.getProperty("java.version") + "). Tried:\n  - " + String.join("\n  - ", loader.tried)
                + "\nName a file in -D" + PATH + ", or, where the directory for temporary files forbids execution,"
                + " another directory in -D" + DIR + ".";
    }

    private boolean tryEverything() {
        String path = System.getProperty(PATH);
        if (path != null) {
            // Whoever names a file wants that file and no other.
            return tryFile(Path.of(path).toAbsolutePath());
        }
        return tryResource() || tryLibraryPath();
    }

    private boolean tryFile(Path file) {
        String origin = "the file " + file + " (-D" + PATH + ")";
        if (!Files.isReadable(file)) {
            tried.add(origin + ": there is no such file, or it is not readable");
            return false;
        }
        try {
            System.load(file.toString());
            return true;
        } catch (UnsatisfiedLinkError error) {
            if (!String.valueOf(error.getMessage()).contains("already loaded in another classloader")) {
                tried.add(origin + ": " + error.getMessage());
                return false;
            }
        }
        try (InputStream library = Files.newInputStream(file)) {
            return tryCopy(library, "a copy of " + origin);
        } catch (IOException error) {
            tried.add(origin + ": " + error);
            return false;
        }
    }

    private boolean tryResource() {
        String name = "native/" + platform() + "/" + System.mapLibraryName(LIBRARY);
        try (InputStream library = NativeLoader.class.getResourceAsStream(name)) {
            if (library == null) {
                tried.add("io/leasehold/" + name + " in the jar: there is none; this jar was not built for " + platform());
                return false;
            }
            return tryCopy(library, "io/leasehold/" + name + " in the jar");
        } catch (IOException error) {
            tried.add("io/leasehold/" + name + " in the jar: " + error);
            return false;
        }
    }

    private boolean tryCopy(InputStream library, String origin) {
        String named = System.getProperty(DIR);
        Path parent = Path.of(named != null ? named : System.getProperty("java.io.tmpdir"));
        Path directory = null;
        Path file = null;
        try {
            if (named != null) {
                Files.createDirectories(parent);
            }
            // Only we may enter it.
            directory = Files.createTempDirectory(parent, COPY);
            removeAbandoned(parent, Files.getOwner(directory));
            file = directory.resolve(System.mapLibraryName(LIBRARY));
            Files.copy(library, file);
            System.load(file.toString());
            return true;
        } catch (IOException | UnsatisfiedLinkError error) {
            String where = file != null ? " copied to " + file : " to be copied into " + parent;
            String what = error instanceof UnsatisfiedLinkError ? error.getMessage() : error.toString();
            tried.add(origin + where + ": " + what);
            return false;
        } finally {
            delete(file);
            delete(directory);
        }
    }

    /**
     * Removes the copies of JVMs that were killed while they loaded theirs. Only in directories of the same owner, which nobody
     * else can have put there to make us remove another file.
     */
    private static void removeAbandoned(Path parent, UserPrincipal owner) {
        try (DirectoryStream<Path> copies = Files.newDirectoryStream(parent, COPY + "*")) {
            for (Path copy : copies) {
                Instant made = Files.getLastModifiedTime(copy, LinkOption.NOFOLLOW_LINKS).toInstant();
                if (Files.isDirectory(copy, LinkOption.NOFOLLOW_LINKS)
                        && Files.getOwner(copy, LinkOption.NOFOLLOW_LINKS).equals(owner)
                        && made.isBefore(Instant.now().minus(ABANDONED))) {
                    delete(copy.resolve(System.mapLibraryName(LIBRARY)));
                    delete(copy);
                }
            }
        } catch (IOException | DirectoryIteratorException gone) {
            // Another JVM was quicker, or we may not look: then somebody else cleans up.
        }
    }

    private boolean tryLibraryPath() {
        try {
            System.loadLibrary(LIBRARY);
            return true;
        } catch (UnsatisfiedLinkError error) {
            tried.add(System.mapLibraryName(LIBRARY) + " on java.library.path: " + error.getMessage());
            return false;
        }
    }

    private static void delete(@Nullable Path path) {
        if (path != null) {
            try {
                Files.deleteIfExists(path);
            } catch (IOException left) {
                // Somebody cleans the directory for temporary files some day.
            }
        }
    }

    /** The system, the processor and, where it is not glibc, the C library. */
    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String system = os.startsWith("mac") ? "macos" : os.startsWith("linux") ? "linux" : os.replaceAll("\\W+", "");
        String processor = switch (arch) {
            case "amd64", "x86_64" -> "x86_64";
            case "aarch64", "arm64" -> "aarch64";
            default -> arch;
        };
        return system + "-" + processor + (system.equals("linux") && isMusl() ? "-musl" : "");
    }

    /** Whether this very process runs on musl: what is installed beside it says nothing. */
    private static boolean isMusl() {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.anyMatch(line -> line.contains("/ld-musl-"));
        } catch (IOException | java.io.UncheckedIOException unknown) {
            return false;
        }
    }
}

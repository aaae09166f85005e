package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.leasehold.programs.Program;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What concerns a whole JVM: how it ends, how it loads the library, and what it says about our use of JNI. */
final class ProcessTest {
    private static final int EXITS = 50;
    private static final Path JAVA = Path.of(System.getProperty("java.home"), "bin", "java");

    @TempDir
    Path directory;

    private record Ended(int code, String output) {}

    private Ended run(List<String> command) throws IOException, InterruptedException {
        Path output = Files.createTempFile(directory, "output", ".txt");
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            assertTrue(process.waitFor(5, TimeUnit.MINUTES), () -> command + " does not end: " + read(output));
        } finally {
            process.destroyForcibly();
        }
        return new Ended(process.exitValue(), read(output));
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static List<String> java(Path java, List<String> options, String what, String name) {
        List<String> command = new ArrayList<>(List.of(java.toString()));
        command.addAll(options);
        command.addAll(List.of(
                "-cp", System.getProperty("java.class.path"), Program.class.getName(), what, Etcd.shared().endpoint, name));
        return command;
    }

    private Ended run(List<String> options, String what, String name) throws Exception {
        return run(java(JAVA, options, what, name));
    }

    @Test
    void endsAfterMainHasReturned() throws Exception {
        String name = Etcd.name();
        Process process = new ProcessBuilder(java(JAVA, List.of(), "return-from-main", name)).start();
        assertEquals("returning", process.inputReader().readLine());
        // Nothing would end it ever if a thread of ours kept it alive.
        assertTrue(process.waitFor(2, TimeUnit.MINUTES));
        assertEquals(0, process.exitValue());
        try (LeaseholdClient observer = LeaseholdClient.connect(Etcd.shared().endpoint)) {
            assertTrue(observer.lock(name).isLocked(), "nothing is released behind anybody's back");
            for (Contender contender : observer.lock(name).queue()) {
                observer.lock(name).forceRelease(contender.token());
            }
        }
    }

    @Test
    void endsWithOperationsPending() throws Exception {
        for (int exit = 0; exit < EXITS; exit++) {
            String name = Etcd.name() + (exit % 2 == 0 ? "/exit" : "/return");
            Ended ended = run(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"), "pending", name);
            assertEquals(0, ended.code, "exit " + exit + ": " + ended.output);
            assertEquals("", ended.output, "exit " + exit);
        }
    }

    @Test
    void theJvmHasNothingToSayAboutOurCalls() throws Exception {
        Ended ended = run(List.of("-Xcheck:jni", "-XX:+UseSerialGC"), "tour", Etcd.name());
        assertEquals(0, ended.code, ended.output);
        assertEquals("seen everything", ended.output.strip());
    }

    @Test
    void whatJavaHasNoMemoryForTakesNothingElseWithIt() throws Exception {
        Ended ended = run(List.of("-Xmx32m"), "too-large", "memory");
        assertEquals(0, ended.code, ended.output);
        assertEquals("survived", ended.output.strip());
    }

    @Test
    void worksForSeveralClassLoaders() throws Exception {
        Ended ended = run(List.of(), "class-loaders", Etcd.name());
        assertEquals(0, ended.code, ended.output);
        assertTrue(ended.output.contains("three times in one JVM"), ended.output);
        Ended named = run(List.of("-Dleasehold.native.path=" + library()), "class-loaders", Etcd.name());
        assertEquals(0, named.code, named.output);
    }

    @Test
    void goesWithItsClassLoader() throws Exception {
        Ended ended = run(List.of(), "unloading", Etcd.name());
        assertEquals(0, ended.code, ended.output);
        assertTrue(ended.output.contains("unloaded"), ended.output);
    }

    @Test
    void takesTheLibraryThatItIsTold() throws Exception {
        assertEquals(0, run(List.of("-Dleasehold.native.path=" + library()), "tour", Etcd.name()).code);
        Ended missing = run(List.of("-Dleasehold.native.path=/no/such.so"), "tour", Etcd.name());
        assertTrue(missing.output.contains("UNSUPPORTED"), missing.output);
        assertTrue(missing.output.contains("/no/such.so"), missing.output);
        Path text = Files.writeString(directory.resolve("text.so"), "no library");
        assertTrue(run(List.of("-Dleasehold.native.path=" + text), "tour", Etcd.name()).output.contains("Tried"));
    }

    private Path library() {
        return Etcd.TARGET.resolve("java").resolve(System.mapLibraryName("leasehold_java"));
    }

    @Test
    void leavesNothingInTheDirectoryOfItsCopy() throws Exception {
        Path own = directory.resolve("own");
        assertEquals(0, run(List.of("-Dleasehold.native.dir=" + own), "tour", Etcd.name()).code);
        try (Stream<Path> left = Files.list(own)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void removesTheCopiesOfThoseThatWereKilled() throws Exception {
        Path own = directory.resolve("shared");
        FileTime old = FileTime.from(Instant.now().minus(Duration.ofHours(1)));
        String library = System.mapLibraryName("leasehold_java");
        Path abandoned = Files.createDirectories(own.resolve("leasehold-java-abandoned"));
        Path elsewhere = Files.createDirectories(directory.resolve("not-ours"));
        for (Path each : List.of(abandoned, elsewhere)) {
            Files.createFile(each.resolve(library));
            Files.setLastModifiedTime(each, old);
        }
        Path inUse = Files.createDirectory(own.resolve("leasehold-java-in-use"));
        Path link = Files.createSymbolicLink(own.resolve("leasehold-java-link"), elsewhere);
        Files.getFileAttributeView(link, BasicFileAttributeView.class, LinkOption.NOFOLLOW_LINKS).setTimes(old, old, null);
        assertEquals(0, run(List.of("-Dleasehold.native.dir=" + own), "tour", Etcd.name()).code);
        try (Stream<Path> left = Files.list(own)) {
            assertEquals(Set.of(inUse, link), left.collect(Collectors.toSet()));
        }
        assertTrue(Files.exists(elsewhere.resolve(library)), "what a link leads to is not ours");
    }

    @Test
    void canLiveWithATemporaryDirectoryThatForbidsExecution() throws Exception {
        Path noexec = Files.createDirectory(directory.resolve("noexec"));
        List<String> mount = List.of("unshare", "--mount", "sh", "-c", "mount -t tmpfs -o noexec tmpfs " + noexec);
        boolean isPossible;
        try {
            isPossible = run(mount).code == 0;
        } catch (IOException noSuchProgram) {
            isPossible = false;
        }
        if (!isPossible) {
            System.out.println("SKIPPED a noexec tmp: this user may not mount one in a namespace of its own");
        }
        assumeTrue(isPossible);
        Ended refused = run(inside(noexec, List.of()));
        assertTrue(refused.output.contains("UNSUPPORTED"), refused.output);
        assertTrue(refused.output.contains("leasehold.native.dir"), refused.output);
        assertTrue(refused.output.contains(noexec.toString()), refused.output);
        Ended helped = run(inside(noexec, List.of("-Dleasehold.native.dir=" + directory.resolve("elsewhere"))));
        assertEquals(0, helped.code, helped.output);
    }

    private static List<String> inside(Path noexec, List<String> options) {
        List<String> all = new ArrayList<>(options);
        all.add("-Djava.io.tmpdir=" + noexec);
        List<String> command = new ArrayList<>(List.of(
                "unshare", "--mount", "sh", "-c", "mount -t tmpfs -o noexec tmpfs " + noexec + " && exec \"$@\"", "sh"));
        command.addAll(java(JAVA, all, "tour", Etcd.name()));
        return command;
    }

    // --- newer JVMs ---

    /** A JDK with virtual threads that do not pin, and that warns about native code. */
    private static Path newerJava() {
        Path java = NewerJdk.find();
        if (java == null) {
            System.out.println("SKIPPED a newer JDK: none of Java 25 was found; name one in LEASEHOLD_JDK_25");
        }
        assumeTrue(java != null);
        return java;
    }

    @Test
    void isQuietWhereNativeAccessIsGranted() throws Exception {
        Path java = newerJava();
        Ended warned = run(java(java, List.of(), "tour", Etcd.name()));
        assertTrue(warned.output.contains("--enable-native-access"), "this JVM warns: " + warned.output);
        assertEquals(0, warned.code);
        Ended quiet = run(java(java, List.of("--enable-native-access=ALL-UNNAMED"), "tour", Etcd.name()));
        assertEquals("seen everything", quiet.output.strip());
        Ended checked = run(java(
                java,
                List.of("-Xcheck:jni", "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC"),
                "tour",
                Etcd.name()));
        assertEquals("seen everything", checked.output.strip());
    }

    @Test
    void aThousandVirtualThreadsWaitParked() throws Exception {
        Path java = newerJava();
        Path program = Etcd.ROOT.resolve("bindings-java/leasehold/src/test/virtual/VirtualThreads.java");
        Ended ended = run(List.of(
                java.toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                System.getProperty("java.class.path"),
                program.toString(),
                Etcd.shared().endpoint,
                Etcd.name()));
        System.out.print(ended.output);
        assertEquals(0, ended.code, ended.output);
        assertFalse(ended.output.isBlank());
    }
}

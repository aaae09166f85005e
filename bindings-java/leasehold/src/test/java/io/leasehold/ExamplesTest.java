package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The Java examples of the pages, compiled and run as they are printed, but on an etcd of the tests'. */
final class ExamplesTest {
    private static final List<String> PAGES = List.of("README.md", "docs/java.md", "docs/migrating-java.md");
    private static final Pattern EXAMPLE = Pattern.compile("^```java\\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);
    private static final Pattern IMPORT = Pattern.compile("^import .*;\\n", Pattern.MULTILINE);
    private static final String ADDRESS = "http://127.0.0.1:2379";

    @TempDir
    Path directory;

    @TestFactory
    Stream<DynamicTest> run() throws Exception {
        List<DynamicTest> tests = new ArrayList<>();
        for (String page : PAGES) {
            String text = Files.readString(Etcd.ROOT.resolve(page));
            Matcher examples = EXAMPLE.matcher(text);
            while (examples.find()) {
                long line = text.substring(0, examples.start()).lines().count() + 1;
                String code = examples.group(1);
                if (code.startsWith("@")) {
                    // Of Spring, which the starter's own tests run.
                    continue;
                }
                tests.add(DynamicTest.dynamicTest(page + ":" + line, () -> run(code)));
            }
        }
        assertTrue(tests.size() > 8, tests.size() + " examples");
        return tests.stream();
    }

    /** An example is the inside of a method that has a {@code client}, unless it makes its own. */
    private void run(String code) throws Exception {
        StringBuilder program = new StringBuilder("""
                import io.leasehold.*;
                import java.time.*;
                import java.util.*;
                import java.util.concurrent.*;
                import java.util.concurrent.locks.Lock;
                """);
        IMPORT.matcher(code).results().forEach(line -> program.append(line.group()));
        String body = IMPORT.matcher(code).replaceAll("").replace(ADDRESS, Etcd.shared().endpoint);
        boolean hasClient = body.contains("LeaseholdClient client =");
        program.append("public class Example { public static void main(String[] arguments) throws Exception {\n");
        program.append(hasClient ? body : "try (LeaseholdClient client = LeaseholdClient.connect(\"" + Etcd.shared().endpoint + "\")) {\n" + body + "}\n");
        program.append("} }\n");
        Path source = Files.writeString(directory.resolve("Example.java"), program);
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null)) {
            StringWriter messages = new StringWriter();
            List<String> options =
                    List.of("-d", directory.toString(), "-cp", System.getProperty("java.class.path"), "-Xlint:all", "-Werror");
            boolean compiles = compiler.getTask(messages, files, null, options, null, files.getJavaFileObjects(source))
                    .call();
            assertTrue(compiles, messages + "\n" + program);
        }
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        directory + System.getProperty("path.separator") + System.getProperty("java.class.path"),
                        "Example")
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        assertTrue(process.waitFor() == 0, output);
        assertFalse(output.contains("Exception"), output);
    }
}

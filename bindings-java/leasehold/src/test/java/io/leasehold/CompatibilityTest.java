package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The table of the cases of others: each test that it names is there. */
final class CompatibilityTest {
    private static final Pattern ROW = Pattern.compile("^\\|(.*)\\|(.*)\\|(.*)\\|$", Pattern.MULTILINE);
    private static final Pattern NAMED = Pattern.compile("`(?:\\w+Test\\.)?([a-z][a-zA-Z]*[A-Z][a-zA-Z]*)`");

    @Test
    void everyTestThatIsNamedIsThere() throws Exception {
        String sources = sources();
        TreeSet<String> named = new TreeSet<>();
        TreeSet<String> missing = new TreeSet<>();
        ROW.matcher(Files.readString(Etcd.ROOT.resolve("docs/java-compatibility.md"))).results().forEach(row ->
                NAMED.matcher(row.group(3)).results().map(match -> match.group(1)).forEach(name -> {
                    // What the row says of the product has the same letters.
                    if (sources.contains("void " + name + "(")) {
                        named.add(name);
                    } else if (!List.of("newCondition", "tryLock").contains(name)) {
                        missing.add(name);
                    }
                }));
        assertTrue(missing.isEmpty(), "named, but not there: " + missing);
        assertTrue(named.size() > 30, named.toString());
    }

    private static String sources() throws Exception {
        try (Stream<Path> files = Files.walk(Etcd.ROOT.resolve("bindings-java"))) {
            List<Path> tests = files.filter(path -> path.toString().contains("src/test/java") && path.toString().endsWith("Test.java"))
                    .toList();
            StringBuilder all = new StringBuilder();
            for (Path test : tests) {
                all.append(Files.readString(test));
            }
            return all.toString();
        }
    }
}

package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** leasehold as a module, and a program that is one and requires it: with nothing else on the module path. */
final class ModulePathTest {
    private static final String MODULE = """
            module shop {
                requires io.leasehold;
            }
            """;

    private static final String MAIN = """
            package shop;

            import io.leasehold.Guard;
            import io.leasehold.LeaseholdClient;

            public final class Main {
                public static void main(String[] arguments) throws Exception {
                    try (LeaseholdClient client = LeaseholdClient.connect("memory://modules");
                            Guard guard = client.lock("/x").acquire()) {
                        System.out.println(guard.held() + " in " + LeaseholdClient.class.getModule());
                    }
                }
            }
            """;

    @TempDir
    Path directory;

    @Test
    void aModuleThatRequiresItLocks() throws Exception {
        Path leasehold = Path.of(LeaseholdClient.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Path jspecify = Path.of(org.jspecify.annotations.Nullable.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Path sources = Files.createDirectories(directory.resolve("sources/shop"));
        Path info = Files.writeString(sources.resolveSibling("module-info.java"), MODULE);
        Path main = Files.writeString(sources.resolve("Main.java"), MAIN);
        Path shop = directory.resolve("shop");
        int compiled = ToolProvider.getSystemJavaCompiler()
                .run(null, null, null, "-p", leasehold + File.pathSeparator + jspecify, "-d", shop.toString(), info.toString(), main.toString());
        assertEquals(0, compiled);

        Path here = Path.of(System.getProperty("java.home"), "bin", "java");
        // To run it needs nothing but itself, the annotations neither.
        assertEquals("true in module io.leasehold", run(here, List.of(), leasehold, shop));
        Path newer = NewerJdk.find();
        if (newer != null) {
            // Granted to this module, and to nobody else.
            List<String> granted = List.of("--enable-native-access=io.leasehold", "--illegal-native-access=deny");
            assertEquals("true in module io.leasehold", run(newer, granted, leasehold, shop));
        }
    }

    private String run(Path java, List<String> options, Path leasehold, Path shop) throws Exception {
        List<String> command = new ArrayList<>(List.of(java.toString()));
        command.addAll(options);
        command.addAll(List.of("-p", leasehold + File.pathSeparator + shop, "-m", "shop/shop.Main"));
        Path output = Files.createTempFile(directory, "output", ".txt");
        Process process =
                new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile()).start();
        try {
            assertTrue(process.waitFor(2, TimeUnit.MINUTES), () -> command + " does not end");
        } finally {
            process.destroyForcibly();
        }
        return Files.readString(output).strip();
    }
}

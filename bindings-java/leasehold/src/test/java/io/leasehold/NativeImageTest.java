package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * What GraalVM's native-image is told: everything that the native library looks up by name, and the files that are read from the
 * jar. No image is built here; what the metadata says is compared with the sources and the classes.
 */
final class NativeImageTest {
    private static final String METADATA = "/META-INF/native-image/io.leasehold/leasehold/reachability-metadata.json";

    /** What the library's sources call the classes of Java. */
    private static final Map<String, String> NAMES = Map.of(
            "JString", "java.lang.String",
            "JObjectArray::<JObject>", "java.lang.Object[]",
            "JObjectArray::<JString>", "java.lang.String[]",
            "JOutOfMemoryError", "java.lang.OutOfMemoryError",
            "JSecurityException", "java.lang.SecurityException",
            "JArrayIndexOutOfBoundsException", "java.lang.ArrayIndexOutOfBoundsException",
            "JArrayStoreException", "java.lang.ArrayStoreException",
            "JStringIndexOutOfBoundsException", "java.lang.StringIndexOutOfBoundsException");

    private record Metadata(List<Type> reflection, List<Resource> resources) {}

    private record Type(String type, boolean jniAccessible, List<Signature> methods) {}

    private record Signature(String name, List<String> parameterTypes) {}

    private record Resource(String glob) {}

    private static Metadata metadata() throws Exception {
        try (Reader file = new InputStreamReader(
                NativeImageTest.class.getResourceAsStream(METADATA), StandardCharsets.UTF_8)) {
            return new Gson().fromJson(file, Metadata.class);
        }
    }

    @Test
    void everythingThatTheLibraryLooksUpIsThere() throws Exception {
        Set<String> told = new TreeSet<>();
        for (Type type : metadata().reflection) {
            assertTrue(type.jniAccessible, type.type);
            Class<?> known = classOf(type.type);
            told.add(type.type);
            for (Signature signature : type.methods == null ? List.<Signature>of() : type.methods) {
                Class<?>[] parameters = new Class<?>[signature.parameterTypes.size()];
                for (int index = 0; index < parameters.length; index++) {
                    parameters[index] = classOf(signature.parameterTypes.get(index));
                }
                if (signature.name.equals("<init>")) {
                    known.getConstructor(parameters);
                } else {
                    known.getDeclaredMethod(signature.name, parameters);
                }
            }
        }
        Set<String> wanted = new TreeSet<>();
        String source = Files.readString(Etcd.ROOT.resolve("bindings-java/native/src/failure.rs"));
        Matcher lookups = Pattern.compile("([\\w:<>]+)::lookup_class\\(").matcher(source);
        while (lookups.find()) {
            wanted.add(NAMES.getOrDefault(lookups.group(1), lookups.group(1)));
        }
        // The one class of ours, by its static method.
        assertTrue(source.contains("jni_str!(\"of\")"));
        wanted.add(LeaseholdException.class.getName());
        wanted.addAll(CRATE);
        assertEquals(wanted, told);
    }

    /** What the `jni` crate looks up by itself, as a recording of all look-ups has shown. */
    private static final Set<String> CRATE =
            Set.of("java.lang.CharSequence", "java.lang.Class", "java.lang.Thread", "java.lang.Throwable");

    @Test
    void everyFileThatIsReadIsThere() throws Exception {
        for (String file : List.of(
                "io/leasehold/version.properties",
                "io/leasehold/native/" + NativeLoader.platform() + "/" + System.mapLibraryName("leasehold_java"))) {
            assertNotNull(NativeImageTest.class.getResource("/" + file), file);
            assertTrue(
                    metadata().resources.stream().anyMatch(resource -> FileSystems.getDefault()
                            .getPathMatcher("glob:" + resource.glob)
                            .matches(Path.of(file))),
                    file);
        }
    }

    private static Class<?> classOf(String name) throws ClassNotFoundException {
        return switch (name) {
            case "int" -> int.class;
            case "boolean" -> boolean.class;
            case "java.lang.Object[]" -> Object[].class;
            case "java.lang.String[]" -> String[].class;
            default -> Class.forName(name);
        };
    }
}

package io.leasehold.samples;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Runs the samples, each on a real etcd of its own; ends with 1 if one of them did not show what it is to show. */
public final class Samples {
    private static final Pattern ENDPOINT = Pattern.compile("\"(https?://[^\"]+)\"");

    private Samples() {}

    /** A sample on the etcd at this endpoint. */
    interface Sample {
        void run(String endpoint) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 3 && arguments[0].equals("instance")) {
            // A process of the upgrade, started by it.
            Instance.main(arguments[1], arguments[2]);
            return;
        }
        List<String> names = arguments.length == 0 ? List.of("three", "five", "upgrade") : List.of(arguments);
        for (String name : names) {
            Sample sample = switch (name) {
                case "three" -> endpoint -> Contenders.play(endpoint, 3, 15, 6);
                case "five" -> endpoint -> Contenders.play(endpoint, 5, 30, 10);
                case "upgrade" -> Upgrade::play;
                default -> throw new IllegalArgumentException("there is no sample " + name + "; there are three, five, upgrade");
            };
            onAnEtcdOfItsOwn(sample);
        }
        // jetcd keeps threads that are no daemons.
        System.exit(0);
    }

    /** It is removed when its stdin is closed. */
    private static void onAnEtcdOfItsOwn(Sample sample) throws Exception {
        Process etcd = new ProcessBuilder(System.getProperty("samples.etcd"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (var out = new BufferedReader(new InputStreamReader(etcd.getInputStream(), StandardCharsets.UTF_8))) {
            Matcher endpoint = ENDPOINT.matcher(out.readLine());
            check(endpoint.find(), "an etcd stands");
            sample.run(endpoint.group(1));
        } finally {
            etcd.getOutputStream().close();
            etcd.waitFor();
        }
    }

    static void check(boolean is, String what) {
        if (!is) {
            System.err.println("NOT as it should be: " + what);
            System.exit(1);
        }
    }
}

package io.leasehold.demo;

import com.google.gson.Gson;
import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/** The contender in Java; see {@code tests/demo/src/protocol.rs} for what it is told and what it says. */
public final class Contender {
    private static final Gson JSON = new Gson();

    private final LeaseholdLock lock;
    private final String counter = setting("COUNTER");
    private Guard guard;
    private long value;

    private Contender(LeaseholdClient client) {
        lock = client.lock(setting("LOCK"));
    }

    public static void main(String[] arguments) throws IOException {
        var options = LeaseholdClient.builder(setting("ENDPOINTS"))
                .ttl(Duration.ofSeconds(Long.parseLong(setting("TTL"))))
                .identity(setting("IDENTITY"));
        try (LeaseholdClient client = options.build()) {
            Contender contender = new Contender(client);
            var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            String line;
            while ((line = in.readLine()) != null) {
                contender.carryOut(line.trim());
            }
        } catch (LeaseholdException | InterruptedException error) {
            say("failed", Map.of("error", error.toString()));
            System.exit(1);
        }
    }

    private void carryOut(String command) throws InterruptedException {
        switch (command) {
            case "acquire" -> {
                say("waiting", Map.of());
                guard = lock.acquire();
                say("acquired", Map.of("token", guard.token(), "key", guard.key()));
            }
            case "read" -> {
                byte[] read = guard.txn().get(counter).commit().values().get(0).orElse(new byte[] {'0'});
                value = Long.parseLong(new String(read, StandardCharsets.UTF_8));
                say("read", Map.of("value", value));
            }
            case "write" -> write();
            case "release" -> {
                guard.release();
                say("released", Map.of());
            }
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private void write() {
        boolean isHeld = guard.held();
        try {
            guard.put(counter, Long.toString(value + 1));
            say("counted", Map.of("value", value + 1));
        } catch (LockLostException lost) {
            say("refused", Map.of(
                    "held", isHeld, "error", lost.code().name(), "reason", String.valueOf(lost.reason())));
        }
    }

    private static void say(String event, Map<String, ?> fields) {
        Map<String, Object> message = new HashMap<>(fields);
        message.put("event", event);
        System.out.println(JSON.toJson(message));
    }

    private static String setting(String name) {
        String variable = "LEASEHOLD_DEMO_" + name;
        return Objects.requireNonNull(System.getenv(variable), variable + " is not set; the demo sets it for its contenders");
    }
}

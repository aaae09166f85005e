package io.leasehold.driver;

import static io.leasehold.driver.Request.malformed;
import static io.leasehold.driver.Request.unsupported;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.driver.Request.Refusal;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The conformance driver of the Java API: one JSON request a line on stdin, replies and events on stdout.
 *
 * <p>It does no locking, waiting or retrying of its own. Asynchronous requests use the futures of the API and are cancelled with
 * {@link CompletableFuture#cancel}; blocking ones have a thread each, which is interrupted. At the end of the input it ends at
 * once and releases nothing.
 */
public final class Driver {
    private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    /** How locks are acquired where a request does not say. */
    private static final String VIA = System.getProperty("driver.via", "async");

    private final Map<String, LeaseholdClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Guard> holds = new ConcurrentHashMap<>();
    /** How to cancel a request. */
    private final Map<JsonElement, Runnable> running = new ConcurrentHashMap<>();
    private final PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    /** What a blocking call of the API brings. */
    private interface Call {
        JsonObject run() throws InterruptedException;
    }

    private Driver() {}

    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            driver.line(line);
        }
        // As a crash would: no exit hooks.
        Runtime.getRuntime().halt(0);
    }

    private void line(String line) {
        JsonElement id = JsonNull.INSTANCE;
        try {
            JsonElement parsed = JsonParser.parseString(line);
            if (!parsed.isJsonObject()) {
                throw malformed("a request is a JSON object");
            }
            Request request = new Request(parsed.getAsJsonObject());
            id = request.field("id").orElseThrow(() -> malformed("the field \"id\" is missing"));
            request(id, request);
        } catch (JsonParseException error) {
            fail(id, malformed("a request is a JSON object: " + error.getMessage()));
        } catch (RuntimeException error) {
            fail(id, error);
        }
    }

    private void request(JsonElement id, Request request) {
        switch (request.text("op")) {
            case "open" -> {
                clients.put(request.text("client"), open(request));
                reply(id, new JsonObject());
            }
            case "ping" -> await(id, client(request).pingAsync().thenApply(done -> new JsonObject()));
            case "close" -> await(id, client(request).closeAsync().thenApply(done -> new JsonObject()));
            case "acquire" -> acquire(id, request);
            case "cancel" -> {
                JsonElement target = request.field("target").orElseThrow(() -> malformed("the field \"target\" is missing"));
                Optional.ofNullable(running.get(target))
                        .orElseThrow(() -> malformed("no request " + target + " was made, or it was answered at once"))
                        .run();
                reply(id, new JsonObject());
            }
            case "check" -> {
                Guard guard = hold(request);
                JsonObject fields = new JsonObject();
                fields.addProperty("held", guard.held());
                fields.addProperty("remaining_ms", guard.remaining().toMillis());
                reply(id, fields);
            }
            case "on_lost" -> {
                Guard guard = hold(request);
                String name = request.text("hold");
                reply(id, new JsonObject());
                guard.onLost(reason -> {
                    JsonObject event = new JsonObject();
                    event.addProperty("mono_ns", System.nanoTime());
                    event.addProperty("event", "lost");
                    event.addProperty("hold", name);
                    event.addProperty("reason", reason.name());
                    write(event);
                });
            }
            case "release" -> await(id, hold(request).releaseAsync().thenApply(done -> new JsonObject()));
            case "guarded_put" -> {
                byte[] key = request.text("key").getBytes(StandardCharsets.UTF_8);
                byte[] value = request.text("value").getBytes(StandardCharsets.UTF_8);
                await(id, hold(request).putAsync(key, value).thenApply(done -> new JsonObject()));
            }
            case "extend" -> {
                Duration span = Duration.ofMillis(request.integer("ttl_ms"));
                await(id, hold(request).extendAsync(span).thenApply(done -> new JsonObject()));
            }
            case "queue" -> await(id, lock(request).queueAsync().thenApply(contenders -> {
                JsonObject fields = new JsonObject();
                fields.add("contenders", JSON.toJsonTree(contenders));
                return fields;
            }));
            case "force_release" -> await(
                    id, lock(request).forceReleaseAsync(request.integer("token")).thenApply(done -> new JsonObject()));
            case "version" -> {
                JsonObject fields = new JsonObject();
                fields.addProperty("language", "java");
                fields.addProperty("version", LeaseholdClient.version());
                reply(id, fields);
            }
            default -> throw unsupported("the Java driver knows no operation " + request.text("op"));
        }
    }

    private static LeaseholdClient open(Request request) {
        var options = LeaseholdClient.builder(request.texts("endpoints"));
        request.millisIfAny("ttl_ms").ifPresent(options::ttl);
        request.textIfAny("namespace").ifPresent(options::namespace);
        request.textIfAny("identity").ifPresent(options::identity);
        Optional<String> password = request.textIfAny("password");
        Optional<String> user = request.textIfAny("user");
        if (password.isPresent() && user.isEmpty()) {
            throw malformed("a password needs a user");
        }
        user.ifPresent(name -> options.user(name, password.orElse("")));
        request.textIfAny("ca_file").map(Path::of).ifPresent(options::caFile);
        request.textIfAny("cert_file").map(Path::of).ifPresent(options::certFile);
        request.textIfAny("key_file").map(Path::of).ifPresent(options::keyFile);
        request.millisIfAny("connect_timeout_ms").ifPresent(options::connectTimeout);
        request.millisIfAny("request_timeout_ms").ifPresent(options::requestTimeout);
        return options.build();
    }

    private void acquire(JsonElement id, Request request) {
        String kind = request.textIfAny("kind").orElse("mutex");
        if (!kind.equals("mutex")) {
            throw unsupported("there is no lock of the kind " + kind);
        }
        boolean isTry = isSecond(request, "mode", "wait", "try", "wait");
        boolean isSync = isSecond(request, "via", "async", "sync", VIA);
        String hold = request.text("hold");
        Optional<Duration> wait = request.millisIfAny("wait_ms");
        LeaseholdLock lock = Optional.of(lock(request))
                .map(plain -> request.millisIfAny("ttl_ms").map(plain::withTtl).orElse(plain))
                .map(plain -> plain.withRenew(request.flag("renew", true)))
                .map(plain -> plain.withRequeue(request.flag("requeue", true)))
                .orElseThrow();
        if (isSync) {
            block(id, () -> won(hold, isTry ? taken(lock.tryAcquire()) : wait.isPresent() ? lock.acquire(wait.get()) : lock.acquire()));
            return;
        }
        if (isTry) {
            var future = lock.tryAcquireAsync();
            await(id, future, future.thenApply(guard -> won(hold, taken(guard))));
        } else {
            var future = wait.isPresent() ? lock.acquireAsync(wait.get()) : lock.acquireAsync();
            await(id, future, future.thenApply(guard -> won(hold, guard)));
        }
    }

    private static Guard taken(Optional<Guard> guard) {
        return guard.orElseThrow(() -> new Refusal("NOT_ACQUIRED", "somebody holds it"));
    }

    private JsonObject won(String hold, Guard guard) {
        holds.put(hold, guard);
        JsonObject fields = new JsonObject();
        fields.addProperty("mono_ns", System.nanoTime());
        fields.addProperty("key", guard.key());
        fields.addProperty("token", guard.token());
        fields.addProperty("sequence", guard.sequence());
        fields.addProperty("lease", guard.lease());
        fields.addProperty("remaining_ms", guard.remaining().toMillis());
        return fields;
    }

    /** Whether a field has the second of two values. */
    private static boolean isSecond(Request request, String name, String first, String second, String otherwise) {
        String value = request.textIfAny(name).orElse(otherwise);
        if (!value.equals(first) && !value.equals(second)) {
            throw malformed(name + " is " + first + " or " + second + ", not " + value);
        }
        return value.equals(second);
    }

    private LeaseholdClient client(Request request) {
        String name = request.text("client");
        return Optional.ofNullable(clients.get(name)).orElseThrow(() -> malformed("no client " + name + " was opened"));
    }

    private LeaseholdLock lock(Request request) {
        return client(request).lock(request.text("lock"));
    }

    private Guard hold(Request request) {
        return Optional.ofNullable(holds.get(request.text("hold")))
                .orElseThrow(() -> new Refusal("NOT_HELD", "there is no such hold"));
    }

    // --- answers ---

    private void await(JsonElement id, CompletableFuture<JsonObject> answer) {
        await(id, answer, answer);
    }

    private void await(JsonElement id, CompletableFuture<?> operation, CompletableFuture<JsonObject> answer) {
        running.put(id, () -> operation.cancel(true));
        answer.whenComplete((fields, error) -> {
            if (error == null) {
                reply(id, fields);
            } else {
                fail(id, error);
            }
        });
    }

    private void block(JsonElement id, Call call) {
        Thread thread = new Thread(() -> {
            try {
                reply(id, call.run());
            } catch (InterruptedException | RuntimeException error) {
                fail(id, error);
            }
        });
        running.put(id, thread::interrupt);
        thread.setDaemon(true);
        thread.start();
    }

    private void reply(JsonElement id, JsonObject fields) {
        if (!fields.has("mono_ns")) {
            fields.addProperty("mono_ns", System.nanoTime());
        }
        fields.addProperty("ok", true);
        fields.add("id", id);
        write(fields);
    }

    private void fail(JsonElement id, Throwable error) {
        long monoNanos = System.nanoTime();
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        JsonObject reply = new JsonObject();
        reply.addProperty("ok", false);
        reply.add("id", id);
        reply.addProperty("mono_ns", monoNanos);
        if (cause instanceof LeaseholdException known) {
            reply.addProperty("code", known.code().name());
        } else if (cause instanceof Refusal refusal) {
            reply.addProperty("code", refusal.code);
        } else if (cause instanceof CancellationException || cause instanceof InterruptedException) {
            reply.addProperty("code", "CANCELLED");
        } else {
            cause.printStackTrace();
            reply.addProperty("code", "INTERNAL");
        }
        reply.addProperty("message", String.valueOf(cause.getMessage()));
        write(reply);
    }

    private void write(JsonObject message) {
        byte[] line = (JSON.toJson(message) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(line, 0, line.length);
            out.flush();
        }
    }
}

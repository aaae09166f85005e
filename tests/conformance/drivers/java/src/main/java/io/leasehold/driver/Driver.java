package io.leasehold.driver;

import static io.leasehold.driver.Request.malformed;
import static io.leasehold.driver.Request.unsupported;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.leasehold.Contender;
import io.leasehold.Guard;
import io.leasehold.GuardedTxn;
import io.leasehold.Leader;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdElection;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import io.leasehold.Observed;
import io.leasehold.Subscription;
import io.leasehold.driver.Request.Refusal;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The conformance driver of the Java API: one JSON request a line on stdin, replies and events on stdout.
 *
 * <p>It does no locking, waiting or retrying of its own. Asynchronous requests use the futures of the API and are cancelled with
 * {@link CompletableFuture#cancel}; blocking ones (an acquire with {@code via: sync}, and all that is done with its hold) have a
 * thread each, and an acquire is interrupted. At the end of the input it ends at once and releases nothing.
 */
public final class Driver {
    private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    /** How locks are acquired where a request does not say. */
    private static final String VIA = System.getProperty("driver.via", "async");

    private static final boolean BLOCKS = VIA.equals("sync");

    private final Map<String, LeaseholdClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Hold> holds = new ConcurrentHashMap<>();
    /** What observes elections, by the names that the runner chose. */
    private final Map<String, CompletableFuture<Subscription>> watches = new ConcurrentHashMap<>();
    /** What had a name that has been given to something else: it goes on. */
    private final Queue<Object> former = new ConcurrentLinkedQueue<>();
    /** How to cancel a request. */
    private final Map<JsonElement, Runnable> requests = new ConcurrentHashMap<>();
    private final PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    /** A guard, and whether it was acquired by a blocking call. */
    private record Hold(Guard guard, boolean blocks) {}

    /** A blocking call of the API. */
    private interface Call<T> {
        T run() throws InterruptedException;
    }

    private Driver() {}

    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver();
        var in = new BufferedInputStream(System.in);
        var line = new ByteArrayOutputStream();
        // Not by a reader of lines: to that, a carriage return ends one, too.
        for (int next = in.read(); next >= 0 || line.size() > 0; next = in.read()) {
            if (next >= 0 && next != '\n') {
                line.write(next);
                continue;
            }
            driver.line(line.toByteArray());
            line.reset();
        }
        // As a crash would: no exit hooks.
        Runtime.getRuntime().halt(0);
    }

    private void line(byte[] line) {
        JsonElement id = JsonNull.INSTANCE;
        try {
            Request request = Request.parse(line);
            id = request.field("id").orElseThrow(() -> malformed("the field \"id\" is missing"));
            requests.put(id, () -> {});
            request(id, request);
        } catch (RuntimeException error) {
            fail(id, error);
        }
    }

    private void request(JsonElement id, Request request) {
        switch (request.text("op")) {
            case "open" -> {
                String name = request.text("client");
                LeaseholdClient client = open(request);
                Optional.ofNullable(clients.put(name, client)).ifPresent(former::add);
                reply(id, new JsonObject());
            }
            case "ping" -> {
                LeaseholdClient client = client(request);
                perform(id, BLOCKS, client::pingAsync, run(client::ping), Driver::nothing);
            }
            case "close" -> {
                LeaseholdClient client = client(request);
                perform(id, BLOCKS, client::closeAsync, run(client::close), Driver::nothing);
            }
            case "on_state" -> {
                String name = request.text("client");
                LeaseholdClient client = client(request);
                subscribe(id, () -> client.onState(state -> tell("state", "client", name, "state", state.health())));
            }
            case "acquire" -> acquire(id, request);
            case "cancel" -> {
                JsonElement target = request.field("target").orElseThrow(() -> malformed("the field \"target\" is missing"));
                // Where it is answered already, this comes too late, and does nothing.
                Optional.ofNullable(requests.get(target))
                        .orElseThrow(() -> malformed("no request " + target + " was made"))
                        .run();
                reply(id, new JsonObject());
            }
            case "check" -> {
                Guard guard = hold(request).guard();
                JsonObject fields = new JsonObject();
                fields.addProperty("held", guard.held());
                fields.addProperty("remaining_ms", guard.remaining().toMillis());
                reply(id, fields);
            }
            case "on_lost" -> {
                Guard guard = hold(request).guard();
                String name = request.text("hold");
                subscribe(id, () -> guard.onLost(reason -> tell("lost", "hold", name, "reason", reason)));
            }
            case "release" -> {
                Hold hold = hold(request);
                perform(id, hold.blocks(), hold.guard()::releaseAsync, run(hold.guard()::release), Driver::nothing);
            }
            case "guarded_put" -> {
                byte[] key = bytes(request.text("key"));
                byte[] value = bytes(request.text("value"));
                Hold hold = hold(request);
                Guard guard = hold.guard();
                perform(id, hold.blocks(), () -> guard.putAsync(key, value), () -> guard.put(key, value), Driver::nothing);
            }
            case "guarded_delete" -> {
                byte[] key = bytes(request.text("key"));
                Hold hold = hold(request);
                Guard guard = hold.guard();
                perform(id, hold.blocks(), () -> guard.deleteAsync(key), () -> guard.delete(key), done -> values(List.of()));
            }
            case "guarded_txn" -> {
                Map<String, String> puts = request.pairs("puts");
                List<String> deletes = request.textsIfAny("deletes").orElse(List.of());
                List<String> gets = request.textsIfAny("gets").orElse(List.of());
                Hold hold = hold(request);
                GuardedTxn txn = hold.guard().txn();
                puts.forEach(txn::put);
                deletes.forEach(txn::delete);
                gets.forEach(txn::get);
                perform(id, hold.blocks(), txn::commitAsync, txn::commit, done -> values(done.values()));
            }
            case "extend" -> {
                Duration span = Duration.ofMillis(request.integer("ttl_ms"));
                Hold hold = hold(request);
                Guard guard = hold.guard();
                perform(id, hold.blocks(), () -> guard.extendAsync(span), run(() -> guard.extend(span)), Driver::nothing);
            }
            case "campaign" -> campaign(id, request);
            case "proclaim" -> {
                byte[] value = bytes(request.text("value"));
                Hold hold = hold(request);
                Guard guard = hold.guard();
                perform(id, hold.blocks(), () -> guard.proclaimAsync(value), run(() -> guard.proclaim(value)), Driver::nothing);
            }
            case "leader" -> {
                LeaseholdElection election = client(request).election(request.text("election"));
                perform(id, BLOCKS, election::leaderAsync, election::leader, Driver::leader);
            }
            case "observe" -> observe(id, request);
            case "unobserve" -> {
                String name = request.text("watch");
                Optional.ofNullable(watches.remove(name))
                        .orElseThrow(() -> malformed("nobody observes as " + name))
                        .thenAccept(Subscription::close);
                reply(id, new JsonObject());
            }
            case "metrics" -> {
                JsonObject fields = new JsonObject();
                fields.addProperty("text", client(request).metrics());
                reply(id, fields);
            }
            case "queue" -> {
                LeaseholdLock lock = lock(request);
                perform(id, BLOCKS, lock::queueAsync, lock::queue, Driver::contenders);
            }
            case "force_release" -> {
                LeaseholdLock lock = lock(request);
                long token = request.integer("token");
                perform(id, BLOCKS, () -> lock.forceReleaseAsync(token), run(() -> lock.forceRelease(token)), Driver::nothing);
            }
            case "version" -> {
                JsonObject fields = new JsonObject();
                fields.addProperty("language", "java");
                fields.addProperty("version", LeaseholdClient.version());
                reply(id, fields);
            }
            default -> throw unsupported("the Java driver knows no operation " + request.text("op"));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static LeaseholdClient open(Request request) {
        var options = LeaseholdClient.builder(request.texts("endpoints"));
        request.millisIfAny("ttl_ms").ifPresent(options::ttl);
        request.textIfAny("namespace").ifPresent(options::namespace);
        request.textIfAny("identity").ifPresent(options::identity);
        Optional<String> password = request.textIfAny("password");
        Optional<String> user = request.textIfAny("user");
        if (password.isPresent() && user.isEmpty()) {
            throw new Refusal("INVALID_ARGUMENT", "a password needs a user");
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
        boolean isTry = isSecond(request, "mode", "wait", "try", "wait");
        boolean isSync = isSecond(request, "via", "async", "sync", VIA);
        String hold = request.text("hold");
        Optional<Duration> wait = request.millisIfAny("wait_ms");
        LeaseholdLock lock = Optional.of(asked(request))
                .map(plain -> request.millisIfAny("ttl_ms").map(plain::withTtl).orElse(plain))
                .map(plain -> plain.withRenew(request.flag("renew", true)))
                .map(plain -> plain.withRequeue(request.flag("requeue", true)))
                .map(plain -> request.requestIfAny("local_first").map(bound -> localFirst(plain, bound)).orElse(plain))
                .map(plain -> request.millisIfAny("linger_ms").map(plain::withLinger).orElse(plain))
                .orElseThrow();
        Function<Guard, JsonObject> won = guard -> {
            JsonObject fields = won(hold, guard, isSync);
            if (request.field("locks").isPresent()) {
                JsonArray keys = new JsonArray();
                guard.keys().forEach(keys::add);
                fields.add("keys", keys);
            }
            return fields;
        };
        if (isTry) {
            perform(id, isSync, lock::tryAcquireAsync, lock::tryAcquire, guard -> won.apply(taken(guard)));
        } else if (wait.isPresent()) {
            perform(id, isSync, () -> lock.acquireAsync(wait.get()), () -> lock.acquire(wait.get()), won);
        } else {
            perform(id, isSync, lock::acquireAsync, lock::acquire, won);
        }
    }

    /** What an acquire asks for: one lock, or several at once. */
    private LeaseholdLock asked(Request request) {
        Optional<List<Request>> several = request.requestsIfAny("locks");
        if (several.isEmpty()) {
            return lock(client(request), request);
        }
        for (String name : List.of("lock", "kind", "permits", "limit")) {
            if (request.field(name).isPresent()) {
                throw malformed("an acquire has the field \"locks\" or \"" + name + "\", not both");
            }
        }
        LeaseholdClient client = client(request);
        List<LeaseholdLock> locks = several.get().stream().map(each -> lock(client, each)).toList();
        if (locks.isEmpty()) {
            // The API has no way to ask for no lock.
            throw new Refusal("INVALID_ARGUMENT", "at least one lock is needed");
        }
        return client.all(locks.get(0), locks.subList(1, locks.size()).toArray(LeaseholdLock[]::new));
    }

    /** One lock, of its kind. */
    private static LeaseholdLock lock(LeaseholdClient client, Request request) {
        String kind = request.textIfAny("kind").orElse("mutex");
        if (!List.of("mutex", "shared", "semaphore").contains(kind)) {
            throw unsupported("there is no lock of the kind " + kind);
        }
        String name = request.text("lock");
        Optional<Integer> permits = request.permitsIfAny("permits");
        Optional<Integer> limit = request.permitsIfAny("limit");
        if (kind.equals("semaphore")) {
            int of = limit.orElseThrow(() -> malformed("a semaphore needs the field \"limit\""));
            return client.semaphore(name, of).permits(permits.orElse(1));
        }
        if (permits.isPresent() || limit.isPresent()) {
            throw new Refusal("INVALID_ARGUMENT", "only a semaphore has permits and a limit");
        }
        return kind.equals("shared") ? client.readWriteLock(name).readLock() : client.lock(name);
    }

    private static LeaseholdLock localFirst(LeaseholdLock lock, Request bound) {
        Optional<Integer> turns = bound.permitsIfAny("turns");
        Optional<Duration> time = bound.millisIfAny("ms");
        if (turns.isEmpty() && time.isEmpty()) {
            return lock.withLocalFirst();
        }
        return lock.withLocalFirst(turns.orElse(64), time.orElse(Duration.ofMillis(100)));
    }

    private void campaign(JsonElement id, Request request) {
        String hold = request.text("hold");
        byte[] value = bytes(request.text("value"));
        LeaseholdElection election = client(request).election(request.text("election"));
        boolean isSync = isSecond(request, "via", "async", "sync", VIA);
        Function<Guard, JsonObject> won = guard -> won(hold, guard, isSync);
        Optional<Duration> wait = request.millisIfAny("wait_ms");
        if (wait.isPresent()) {
            perform(id, isSync, () -> election.campaignAsync(value, wait.get()), () -> election.campaign(value, wait.get()), won);
        } else {
            perform(id, isSync, () -> election.campaignAsync(value), () -> election.campaign(value), won);
        }
    }

    private void observe(JsonElement id, Request request) {
        String watch = request.text("watch");
        LeaseholdElection election = client(request).election(request.text("election"));
        // No event comes before the reply.
        CompletableFuture<Void> replied = new CompletableFuture<>();
        Consumer<Observed> listener = observed -> {
            replied.join();
            JsonObject event = leader(observed.leader());
            event.addProperty("mono_ns", System.nanoTime());
            event.addProperty("event", "leader");
            event.addProperty("watch", watch);
            write(event);
        };
        CompletableFuture<Subscription> begun = election.observeAsync(listener);
        requests.put(id, () -> begun.cancel(true));
        // A name that is given anew stands for the new one, and the old one goes on.
        Optional.ofNullable(watches.put(watch, begun)).ifPresent(former::add);
        begun.whenComplete((subscription, error) -> {
            answer(id, System.nanoTime(), () -> {
                if (error != null) {
                    throw error;
                }
                return new JsonObject();
            });
            replied.complete(null);
        });
    }

    private static JsonObject leader(Optional<Leader> leader) {
        JsonObject fields = new JsonObject();
        fields.addProperty("value", leader.map(Leader::text).orElse(null));
        fields.addProperty("token", leader.map(Leader::token).orElse(null));
        return fields;
    }

    private static Guard taken(Optional<Guard> guard) {
        return guard.orElseThrow(() -> new Refusal("NOT_ACQUIRED", "somebody holds it"));
    }

    private JsonObject won(String hold, Guard guard, boolean isSync) {
        Optional.ofNullable(holds.put(hold, new Hold(guard, isSync))).ifPresent(former::add);
        JsonObject fields = new JsonObject();
        fields.addProperty("key", guard.key());
        fields.addProperty("token", guard.token());
        fields.addProperty("sequence", guard.sequence());
        fields.addProperty("lease", guard.lease());
        fields.addProperty("remaining_ms", guard.remaining().toMillis());
        return fields;
    }

    private static JsonObject nothing(Object done) {
        return new JsonObject();
    }

    private static JsonObject values(List<Optional<byte[]>> found) {
        JsonArray values = new JsonArray();
        for (Optional<byte[]> value : found) {
            values.add(value.map(bytes -> new String(bytes, StandardCharsets.UTF_8)).orElse(null));
        }
        JsonObject fields = new JsonObject();
        fields.add("values", values);
        return fields;
    }

    private static JsonObject contenders(List<Contender> found) {
        JsonArray contenders = new JsonArray();
        for (Contender one : found) {
            JsonObject fields = new JsonObject();
            fields.addProperty("key", one.key());
            fields.addProperty("token", one.token());
            fields.addProperty("lease", one.lease());
            fields.addProperty("identity", one.identity());
            fields.addProperty("foreign", one.foreign());
            contenders.add(fields);
        }
        JsonObject fields = new JsonObject();
        fields.add("contenders", contenders);
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
        String name = request.text("lock");
        return client(request).lock(name);
    }

    private Hold hold(Request request) {
        return Optional.ofNullable(holds.get(request.text("hold")))
                .orElseThrow(() -> new Refusal("NOT_HELD", "there is no such hold"));
    }

    // --- answers ---

    /** A call that brings nothing, as one that does. */
    private static Call<Object> run(Runnable call) {
        return () -> {
            call.run();
            return "done";
        };
    }

    /** Starts the one form or the other of an operation, and answers with what came of it. */
    private <T> void perform(
            JsonElement id,
            boolean isSync,
            Supplier<CompletableFuture<? extends T>> start,
            Call<? extends T> call,
            Function<? super T, JsonObject> fields) {
        if (!isSync) {
            CompletableFuture<? extends T> future = start.get();
            requests.put(id, () -> future.cancel(true));
            future.whenComplete((result, error) -> answer(id, System.nanoTime(), () -> {
                if (error != null) {
                    throw error;
                }
                return fields.apply(result);
            }));
            return;
        }
        Thread thread = new Thread(() -> {
            Answer answer;
            try {
                T result = call.run();
                answer = () -> fields.apply(result);
            } catch (InterruptedException | RuntimeException error) {
                answer = () -> {
                    throw error;
                };
            }
            answer(id, System.nanoTime(), answer);
        });
        // Whatever waits for a lock can be interrupted; it has no effect on one that has ended.
        requests.put(id, thread::interrupt);
        thread.setDaemon(true);
        thread.start();
    }

    /** The fields of a reply, or why there are none. */
    private interface Answer {
        JsonObject fields() throws Throwable;
    }

    private void answer(JsonElement id, long monoNanos, Answer answer) {
        try {
            JsonObject fields = answer.fields();
            fields.addProperty("mono_ns", monoNanos);
            reply(id, fields);
        } catch (Throwable error) {
            fail(id, error);
        }
    }

    /** Answers before the first event is told: whoever tells one waits for the output. */
    private void subscribe(JsonElement id, Runnable ask) {
        synchronized (out) {
            ask.run();
            reply(id, new JsonObject());
        }
    }

    private void tell(String event, String kind, String name, String field, Enum<?> news) {
        JsonObject message = new JsonObject();
        message.addProperty("mono_ns", System.nanoTime());
        message.addProperty("event", event);
        message.addProperty(kind, name);
        message.addProperty(field, news.name());
        write(message);
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

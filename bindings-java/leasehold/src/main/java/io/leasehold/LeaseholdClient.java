package io.leasehold;

import java.lang.ref.Cleaner;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A connection to an etcd cluster and the sessions of the locks taken through it. One for a program is enough.
 *
 * <p>It is lazy: making one opens nothing and starts no thread. The first operation starts one native thread for the whole
 * process, which keeps the leases alive whatever Java does, and one daemon thread that hands out results. Neither keeps the JVM
 * alive: when {@code main} returns, the program ends. It then leaves its locks as a crash would, to be free after their TTL;
 * {@link #close} releases them at once.
 *
 * <p>Safe for use by any number of threads.
 */
public final class LeaseholdClient implements AutoCloseable {
    static final Cleaner CLEANER = Cleaner.create();

    private final long handle;
    private final Builder options;
    private final Executor executor;
    private final Listeners listeners;
    private final ClientState state;
    private final ThreadHolds threadHolds = new ThreadHolds();
    private final HeldPermits heldPermits = new HeldPermits();

    private LeaseholdClient(Builder builder) {
        Native.check();
        handle = Native.clientOpen(
                builder.url,
                Spans.millisIfAny(builder.ttl, "the TTL"),
                builder.namespace,
                builder.identity,
                builder.user,
                builder.password,
                builder.plaintextPassword,
                text(builder.caFile),
                text(builder.certFile),
                text(builder.keyFile),
                Spans.millisIfAny(builder.connectTimeout, "the connect timeout"),
                Spans.millisIfAny(builder.requestTimeout, "the request timeout"));
        options = new Builder(builder);
        executor = Callbacks.reliable(builder.executor, Thread.currentThread().getContextClassLoader());
        listeners = new Listeners(builder.listeners);
        state = new ClientState(handle, builder.url);
        CLEANER.register(this, state);
    }

    /**
     * A client with default options.
     *
     * @param url the endpoints, as for {@link #builder(String)}
     * @return the client; nothing is connected yet
     * @throws InvalidArgumentException if the URL is wrong
     */
    public static LeaseholdClient connect(String url) {
        return builder(url).build();
    }

    /**
     * Options to make a client with.
     *
     * @param url one endpoint or several, separated by commas: {@code http://host:port}, {@code https://host:port} or {@code
     *     host:port}. Options can follow behind a question mark, durations with their unit: {@code
     *     https://a:2379,https://b:2379?ttl=10s&namespace=/shop}. {@code memory://name} is a store inside this process, for unit
     *     tests; it locks nothing beyond this process.
     * @return the options
     */
    public static Builder builder(String url) {
        return new Builder(url);
    }

    /**
     * Options to make a client with.
     *
     * @param endpoints each as for {@link #builder(String)}
     * @return the options
     */
    public static Builder builder(Collection<String> endpoints) {
        endpoints.forEach(endpoint -> Objects.requireNonNull(endpoint, "an endpoint"));
        return new Builder(String.join(",", endpoints));
    }

    /**
     * The options that this client was made with, to make another one of: with a session of its own. Listeners are not among them:
     * they hear of this client.
     *
     * @return options of another client
     */
    public Builder toBuilder() {
        return new Builder(options);
    }

    /**
     * The version of leasehold.
     *
     * @return the version
     */
    public static String version() {
        Native.check();
        return Native.version();
    }

    /**
     * The lock of this name. Making one does nothing yet; locks of one name are the same lock, however many objects there are.
     *
     * @param name 1 to 1,024 bytes of UTF-8 without NUL, taken verbatim. A bad name is reported by the lock's operations.
     * @return the lock
     */
    public LeaseholdLock lock(String name) {
        return new LeaseholdLock(Acquire.of(this, Claim.exclusive(Objects.requireNonNull(name, "name"))));
    }

    /**
     * The read-write lock of this name: many read, or one writes. Its write lock is {@link #lock} of the name.
     *
     * @param name as for {@link #lock}
     * @return the two locks
     */
    public LeaseholdReadWriteLock readWriteLock(String name) {
        return new LeaseholdReadWriteLock(
                new LeaseholdLock(Acquire.of(this, Claim.shared(Objects.requireNonNull(name, "name")))), lock(name));
    }

    /**
     * The semaphore of this name.
     *
     * @param name as for {@link #lock}
     * @param limit how many permits there are, 1 to 2,147,483,647; all who use the name must say the same. A bad one is reported by
     *     the semaphore's operations.
     * @return the semaphore
     */
    public LeaseholdSemaphore semaphore(String name, int limit) {
        return new LeaseholdSemaphore(this, Objects.requireNonNull(name, "name"), limit);
    }

    /**
     * Several locks as one: all of them are acquired at once, or none. However many do so, in whatever order, and with locks of a
     * single name beside them, none waits for another in a circle: all places are put in the queues by one transaction. (A thread
     * that holds one lock and then asks for another is not protected by that.)
     *
     * @param first a lock, also a {@linkplain LeaseholdReadWriteLock#readLock read lock} or {@linkplain LeaseholdSemaphore#permits
     *     permits}; what it says of TTL, renewal and the like counts for all
     * @param more others of this client, at most 31, of other names
     * @return the lock of all of them
     */
    public LeaseholdLock all(LeaseholdLock first, LeaseholdLock... more) {
        List<Claim> claims = new ArrayList<>(first.claims(this));
        for (LeaseholdLock lock : more) {
            claims.addAll(lock.claims(this));
        }
        return first.withClaims(claims);
    }

    /**
     * The election of this name.
     *
     * @param name as for {@link #lock}
     * @return the election
     */
    public LeaseholdElection election(String name) {
        return new LeaseholdElection(Acquire.of(this, Claim.exclusive(Objects.requireNonNull(name, "name"))));
    }

    /**
     * What this client has counted and timed in this process, as OpenMetrics text: for {@code /metrics}. Asks nobody.
     *
     * @return the text, in UTF-8, of the content type {@code application/openmetrics-text; version=1.0.0; charset=utf-8}
     */
    public String metrics() {
        return Native.clientMetrics(handle);
    }

    /**
     * Asks etcd for a sign of life: a read that a majority of the cluster has confirmed.
     *
     * @throws UnavailableException or {@link DeadlineExceededException} if there is none within the request timeout
     * @throws UnauthenticatedException if etcd refuses user, password or certificate
     * @throws ClientClosedException if the client is closed
     */
    public void ping() {
        await(this::startPing);
    }

    /**
     * {@link #ping} without waiting.
     *
     * @return done when there is a sign of life; fails as {@link #ping} does
     */
    public CompletableFuture<@Nullable Void> pingAsync() {
        return async(this::startPing, done -> null);
    }

    /**
     * Who this client says it is to whoever looks at a queue.
     *
     * @return {@link Builder#identity}, or {@code <host>:<pid>}
     */
    public String identity() {
        return Native.clientIdentity(handle);
    }

    /**
     * Listens to the state of the client's sessions: a warning when renewals stay out, and the loss.
     *
     * @param listener told every change from now on, one after the other, on the client's {@link Builder#executor executor}
     * @return to end it with
     */
    public Subscription onState(Consumer<SessionState> listener) {
        Objects.requireNonNull(listener, "listener");
        StateListener receiver = new StateListener(listener, Callbacks.inOrder(executor));
        start(receiver, (queue, tag) -> Native.clientOnState(handle, queue, tag));
        return receiver;
    }

    /**
     * Releases everything that this client holds or waits for, and ends it. Guards are lost with {@link
     * LostReason#CLIENT_CLOSED}, acquires fail with {@link ClientClosedException}. Closing twice is no error. Takes at most the
     * request timeout; if etcd cannot be reached, what is left there ends with its lease.
     */
    @Override
    public void close() {
        state.isClosed = true;
        Completion completion = Waiter.start(this::startClose).await();
        state.leave();
        if (completion.isFailure()) {
            throw completion.failure();
        }
    }

    /**
     * {@link #close} without waiting.
     *
     * @return done when everything is released
     */
    public CompletableFuture<@Nullable Void> closeAsync() {
        state.isClosed = true;
        Operation<@Nullable Void> operation = new Operation<>(executor, done -> null);
        operation.whenComplete((done, error) -> state.leave());
        return operation.start(() -> Dispatcher.start(operation, this::startClose));
    }

    @Override
    public String toString() {
        return "LeaseholdClient[" + state.url + "]";
    }

    // --- for this package ---

    long handle() {
        return handle;
    }

    ClientState state() {
        return state;
    }

    Executor executor() {
        return executor;
    }

    Listeners listeners() {
        return listeners;
    }

    ThreadHolds threadHolds() {
        return threadHolds;
    }

    HeldPermits heldPermits() {
        return heldPermits;
    }

    /** Starts an operation of this client, and what all of them need with the first one. */
    void start(Receiver receiver, Dispatcher.Start operation) {
        state.join();
        Dispatcher.start(receiver, operation);
    }

    /** {@link #start} for the calling thread, which waits. */
    Waiter wait(Dispatcher.Start operation) {
        state.join();
        return Waiter.start(operation);
    }

    /** Starts an operation and waits for it, uninterruptibly: for those that end within the request timeout. */
    Completion await(Dispatcher.Start operation) {
        Completion completion = wait(operation).await();
        if (completion.isFailure()) {
            throw completion.failure();
        }
        return completion;
    }

    <T> CompletableFuture<T> async(Dispatcher.Start operation, Function<Completion, T> result) {
        Operation<T> future = new Operation<>(executor, result);
        return future.start(() -> start(future, operation));
    }

    private long startPing(long queue, long tag) {
        return Native.clientPing(handle, queue, tag);
    }

    private long startClose(long queue, long tag) {
        return Native.clientClose(handle, queue, tag);
    }

    private static @Nullable String text(@Nullable Path path) {
        return path == null ? null : path.toString();
    }

    /** Options of a client; {@link #build} checks them. What is not set has its default. */
    public static final class Builder {
        private final String url;
        private @Nullable Duration ttl;
        private @Nullable String namespace;
        private @Nullable String identity;
        private @Nullable String user;
        private @Nullable String password;
        private boolean plaintextPassword;
        private @Nullable Path caFile;
        private @Nullable Path certFile;
        private @Nullable Path keyFile;
        private @Nullable Duration connectTimeout;
        private @Nullable Duration requestTimeout;
        private @Nullable Executor executor;
        private final List<LockListener> listeners = new ArrayList<>();

        private Builder(String url) {
            this.url = Objects.requireNonNull(url, "url");
        }

        private Builder(Builder other) {
            url = other.url;
            ttl = other.ttl;
            namespace = other.namespace;
            identity = other.identity;
            user = other.user;
            password = other.password;
            plaintextPassword = other.plaintextPassword;
            caFile = other.caFile;
            certFile = other.certFile;
            keyFile = other.keyFile;
            connectTimeout = other.connectTimeout;
            requestTimeout = other.requestTimeout;
            executor = other.executor;
        }

        /**
         * How long a lock stays taken after its owner crashed: the TTL of the session's lease.
         *
         * @param ttl at least 2 s (5 s or more is recommended), at most 30 days, rounded up to whole seconds; default 15 s. etcd
         *     may choose a longer one.
         * @return these options
         */
        public Builder ttl(Duration ttl) {
            this.ttl = Objects.requireNonNull(ttl, "ttl");
            return this;
        }

        /**
         * Put before every name and every key of a guarded write, verbatim.
         *
         * @param namespace at most 1,024 bytes without NUL; default empty
         * @return these options
         */
        public Builder namespace(String namespace) {
            this.namespace = Objects.requireNonNull(namespace, "namespace");
            return this;
        }

        /**
         * Who this client is, shown to whoever looks at the queue.
         *
         * @param identity 1 to 256 bytes, no secret; default {@code <host>:<pid>}
         * @return these options
         */
        public Builder identity(String identity) {
            this.identity = Objects.requireNonNull(identity, "identity");
            return this;
        }

        /**
         * User and password, where etcd asks for them.
         *
         * @param user the user
         * @param password the password
         * @return these options
         */
        public Builder user(String user, String password) {
            this.user = Objects.requireNonNull(user, "user");
            this.password = Objects.requireNonNull(password, "password");
            return this;
        }

        /**
         * Whether the password may go over plain {@code http://} to other machines, where everybody on the way can read it. To
         * this machine itself, and over {@code https://}, it always may.
         *
         * @param allowed default false
         * @return these options
         */
        public Builder plaintextPassword(boolean allowed) {
            plaintextPassword = allowed;
            return this;
        }

        /**
         * The certificates (PEM) of the authorities that may have signed etcd's certificate.
         *
         * @param path a file, read by {@link #build}; default: the authorities that this machine trusts
         * @return these options
         */
        public Builder caFile(Path path) {
            caFile = Objects.requireNonNull(path, "path");
            return this;
        }

        /**
         * Our own certificate (PEM), where etcd asks for one. Needs {@link #keyFile}.
         *
         * @param path a file, read by {@link #build}
         * @return these options
         */
        public Builder certFile(Path path) {
            certFile = Objects.requireNonNull(path, "path");
            return this;
        }

        /**
         * The private key (PEM) of our own certificate.
         *
         * @param path a file, read by {@link #build}
         * @return these options
         */
        public Builder keyFile(Path path) {
            keyFile = Objects.requireNonNull(path, "path");
            return this;
        }

        /**
         * How long opening a connection may take before the next endpoint is tried.
         *
         * @param timeout 10 ms to 1 h; default 2 s
         * @return these options
         */
        public Builder connectTimeout(Duration timeout) {
            connectTimeout = Objects.requireNonNull(timeout, "timeout");
            return this;
        }

        /**
         * How long an operation may take that does not wait for a lock, all attempts together.
         *
         * @param timeout 10 ms to 1 h; default 5 s
         * @return these options
         */
        public Builder requestTimeout(Duration timeout) {
            requestTimeout = Objects.requireNonNull(timeout, "timeout");
            return this;
        }

        /**
         * Where continuations of futures and listeners run.
         *
         * @param executor default: daemon threads of leasehold's own, with the context class loader of the thread that calls
         *     {@link #build}. They also run what {@code executor} refuses. One that runs tasks on the calling thread would let
         *     their code hold up everybody's results.
         * @return these options
         */
        public Builder executor(Executor executor) {
            this.executor = Objects.requireNonNull(executor, "executor");
            return this;
        }

        /**
         * Adds somebody who is told of every acquire and every hold, for meters and logs.
         *
         * @param listener told from the start
         * @return these options
         */
        public Builder listener(LockListener listener) {
            listeners.add(Objects.requireNonNull(listener, "listener"));
            return this;
        }

        /**
         * Checks the options, reads the certificate files and makes the client. Opens no connection and starts no thread.
         *
         * @return the client
         * @throws InvalidArgumentException with a message that says which option is wrong and what it should be
         * @throws LeaseholdException with {@link ErrorCode#UNSUPPORTED} if the native library cannot be loaded; the message says
         *     what was tried
         */
        public LeaseholdClient build() {
            return new LeaseholdClient(this);
        }
    }
}

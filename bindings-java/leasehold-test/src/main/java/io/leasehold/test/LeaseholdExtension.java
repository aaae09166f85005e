package io.leasehold.test;

import io.leasehold.Contender;
import io.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Locks for JUnit tests, 5 and 6: without a server, or on an etcd of the test's own.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final LeaseholdExtension leasehold = LeaseholdExtension.memory();
 *
 * @Test
 * void stopsWhenTheLockIsLost(LeaseholdClient client) throws Exception {
 *     Guard guard = client.lock("/lock/job").acquire();
 *     leasehold.lose("/lock/job");
 *     assertEquals(LostReason.KEY_DELETED, guard.lost().get(10, TimeUnit.SECONDS));
 * }
 * }</pre>
 *
 * <p>In a static field it serves all tests of the class, those of nested classes too; in another one each test has its own. {@code
 * @ExtendWith(LeaseholdExtension.class)} is the same as a static {@link #memory()}. Clients that it made are closed with it.
 */
public final class LeaseholdExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, AfterAllCallback, ParameterResolver {
    /** How long {@link #await} waits. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final boolean usesEtcd;
    private final List<LeaseholdClient> clients = new ArrayList<>();
    private @Nullable EtcdProcess etcd;
    private @Nullable String url;
    private @Nullable LeaseholdClient client;
    /** Test classes that it serves now, one nested in the other. */
    private int classes;

    /** For {@code @ExtendWith}: {@link #memory()}. */
    public LeaseholdExtension() {
        this(false);
    }

    private LeaseholdExtension(boolean usesEtcd) {
        this.usesEtcd = usesEtcd;
    }

    /**
     * Locks in a store inside this process, for all clients of this extension. Fast, and no server; it locks nothing beyond the
     * process.
     *
     * @return the extension
     */
    public static LeaseholdExtension memory() {
        return new LeaseholdExtension(false);
    }

    /**
     * Locks on a real etcd, started from the {@code PATH} (or the file that the system property {@code leasehold.test.etcd} names)
     * on free ports of the loopback interface, with its data in a temporary directory, and ended afterwards.
     *
     * @return the extension
     */
    public static LeaseholdExtension etcd() {
        return new LeaseholdExtension(true);
    }

    /**
     * Where the locks are: for the property {@code leasehold.endpoints}, say.
     *
     * @return the URL for {@link LeaseholdClient#builder(String)}
     */
    public synchronized String url() {
        if (url == null) {
            throw new IllegalStateException("the extension has not begun; is its field static, or used before @BeforeEach?");
        }
        return url;
    }

    /**
     * The client of the test; tests get it as a parameter, too.
     *
     * @return always the same one
     */
    public synchronized LeaseholdClient client() {
        if (client == null) {
            client = newClient();
        }
        return client;
    }

    /**
     * Another client with a session of its own, as another process would have it. Closed after the test.
     *
     * @return a new client
     */
    public synchronized LeaseholdClient newClient() {
        LeaseholdClient made = LeaseholdClient.connect(url());
        clients.add(made);
        return made;
    }

    /**
     * Makes the owner of a lock lose it, as an administrator who deletes its key does. Returns when the key is gone; the
     * owner hears of it within about a second, with {@link io.leasehold.LostReason#KEY_DELETED}.
     *
     * @param name the lock
     * @throws IllegalStateException if nobody holds it
     */
    public void lose(String name) {
        List<Contender> queue = client().lock(name).queue();
        if (queue.isEmpty()) {
            throw new IllegalStateException("nobody holds the lock " + name + ", so nobody can lose it");
        }
        long token = queue.get(0).token();
        client().lock(name).forceRelease(token);
    }

    /**
     * Waits until something is true, for a test that has to: for 10 seconds at most.
     *
     * @param what what is waited for, for the message
     * @param condition the condition, asked every few milliseconds
     * @throws InterruptedException if the thread is interrupted
     */
    public static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - deadline > 0) {
                throw new AssertionError(what + ": not within " + PATIENCE.toSeconds() + " s");
            }
            Thread.sleep(5);
        }
    }

    /** Of the class, and of each class nested in it, which is a part of it: the first begins it. */
    @Override
    public void beforeAll(ExtensionContext context) {
        classes++;
        if (classes == 1) {
            begin();
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (classes == 0) {
            begin();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        if (classes == 0) {
            end();
        }
    }

    @Override
    public void afterAll(ExtensionContext context) {
        classes--;
        if (classes == 0) {
            end();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == LeaseholdClient.class || type == LeaseholdExtension.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == LeaseholdClient.class ? client() : this;
    }

    private synchronized void begin() {
        if (usesEtcd) {
            EtcdProcess started = EtcdProcess.start();
            etcd = started;
            url = started.url();
        } else {
            url = "memory://" + UUID.randomUUID();
        }
    }

    private synchronized void end() {
        // The last one first: whoever came later may wait for whoever was there.
        for (int index = clients.size() - 1; index >= 0; index--) {
            clients.get(index).close();
        }
        clients.clear();
        client = null;
        url = null;
        if (etcd != null) {
            etcd.close();
            etcd = null;
        }
    }
}

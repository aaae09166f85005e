package io.leasehold;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.jspecify.annotations.Nullable;

/**
 * The entry points of the native library; {@code bindings-java/native/src/calls.rs} has the same functions in the same order.
 * Durations are milliseconds, negative for none. What an operation brings goes into a queue under a tag, or, with 0 for the
 * queue, to the calling thread, which takes it at once ({@link #waiterTake}). The id that starting one returns is for {@link
 * #cancel}.
 */
final class Native {
    /** Why there is no native library; null if there is one. */
    private static final @Nullable String PROBLEM;

    static {
        String problem = NativeLoader.load();
        if (problem == null) {
            // Here, because only this class's loader is sure to find ours.
            initialise(LeaseholdException.class);
            String own = ownVersion();
            if (!own.equals(version())) {
                problem = "the native library is of version " + version() + ", but this jar of " + own
                        + "; use both of one version";
            }
        }
        PROBLEM = problem;
    }

    private Native() {}

    /** Throws if there is no native library. Everything else here may only be called after this. */
    static void check() {
        if (PROBLEM != null) {
            throw new LeaseholdException(ErrorCode.UNSUPPORTED, PROBLEM);
        }
    }

    private static String ownVersion() {
        Properties properties = new Properties();
        try (InputStream file = Native.class.getResourceAsStream("version.properties")) {
            if (file != null) {
                properties.load(file);
            }
        } catch (IOException unreadable) {
            // Then the versions differ, which tells.
        }
        return properties.getProperty("version", "unknown");
    }

    // --- the library ---

    private static native void initialise(Class<?> exceptions);

    static native String version();

    static native long[] live();

    static native void logsListen(int level, long queue, long tag);

    static native void logsStop();

    static native void wouldDeadlock(String name);

    // --- queues and operations ---

    static native long queueOpen();

    static native int queueTake(long queue, long millis, long[] numbers, @Nullable Object[] objects);

    static native boolean waiterTake(long micros, long[] numbers, @Nullable Object[] objects);

    static native void waiterMove(long queue, long tag);

    static native void waiterDrop();

    static native void queueClose(long queue);

    static native boolean cancel(long operation);

    // --- clients ---

    static native long clientOpen(
            String url,
            long ttl,
            @Nullable String namespace,
            @Nullable String identity,
            @Nullable String user,
            @Nullable String password,
            boolean plaintextPassword,
            @Nullable String caFile,
            @Nullable String certFile,
            @Nullable String keyFile,
            long connectTimeout,
            long requestTimeout);

    static native void clientFree(long client);

    static native String clientIdentity(long client);

    static native String clientMetrics(long client);

    static native long clientAcquire(
            long client,
            String[] names,
            int[] claims,
            long wait,
            long ttl,
            boolean renew,
            boolean requeue,
            boolean localFirst,
            int turns,
            long time,
            long linger,
            long queue,
            long tag);

    static native long clientCampaign(
            long client,
            String name,
            byte[] value,
            long wait,
            long ttl,
            boolean renew,
            boolean requeue,
            long queue,
            long tag);

    static native long clientPing(long client, long queue, long tag);

    static native long clientQueue(long client, String name, long queue, long tag);

    static native long clientForceRelease(long client, String name, long token, long queue, long tag);

    static native long clientLeader(long client, String name, long queue, long tag);

    static native long clientObserve(long client, String name, long queue, long tag);

    static native long clientOnState(long client, long queue, long tag);

    static native long clientClose(long client, long queue, long tag);

    // --- guards ---

    static native void guardFree(long guard);

    static native boolean guardHeld(long guard);

    static native long guardRemaining(long guard);

    static native long guardLost(long guard, long queue, long tag);

    static native long guardRelease(long guard, long queue, long tag);

    static native long guardExtend(long guard, long span, long queue, long tag);

    static native long guardProclaim(long guard, byte[] value, long queue, long tag);

    static native long guardPut(long guard, byte[] key, byte[] value, long queue, long tag);

    static native long guardDelete(long guard, byte[] key, long queue, long tag);

    static native long guardTxn(
            long guard, int[] kinds, byte[][] keys, @Nullable byte[][] values, long queue, long tag);
}

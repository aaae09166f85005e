package io.leasehold;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A transaction that takes effect only while its lock is held. Keys stand below the client's namespace; etcd allows 128
 * operations by default. Not safe for use by several threads at once.
 */
public final class GuardedTxn {
    private static final int PUT = 0;
    private static final int DELETE = 1;
    private static final int GET = 2;

    private record Step(int kind, byte[] key, byte @Nullable [] value) {}

    private final Guard guard;
    private final List<Step> steps = new ArrayList<>();

    GuardedTxn(Guard guard) {
        this.guard = guard;
    }

    /**
     * Writes a value.
     *
     * @param key where to
     * @param value what
     * @return this transaction
     */
    public GuardedTxn put(byte[] key, byte[] value) {
        steps.add(new Step(PUT, Objects.requireNonNull(key, "key"), Objects.requireNonNull(value, "value")));
        return this;
    }

    /**
     * Writes a text, in UTF-8.
     *
     * @param key where to
     * @param value what
     * @return this transaction
     */
    public GuardedTxn put(String key, String value) {
        return put(Guard.bytes(key), Guard.bytes(value));
    }

    /**
     * Deletes a key.
     *
     * @param key which
     * @return this transaction
     */
    public GuardedTxn delete(byte[] key) {
        steps.add(new Step(DELETE, Objects.requireNonNull(key, "key"), null));
        return this;
    }

    /**
     * Deletes a key.
     *
     * @param key which, in UTF-8
     * @return this transaction
     */
    public GuardedTxn delete(String key) {
        return delete(Guard.bytes(key));
    }

    /**
     * Reads a key.
     *
     * @param key which
     * @return this transaction
     */
    public GuardedTxn get(byte[] key) {
        steps.add(new Step(GET, Objects.requireNonNull(key, "key"), null));
        return this;
    }

    /**
     * Reads a key.
     *
     * @param key which, in UTF-8
     * @return this transaction
     */
    public GuardedTxn get(String key) {
        return get(Guard.bytes(key));
    }

    /**
     * Carries it out; errors are those of {@link Guard#put(byte[], byte[])}.
     *
     * @return what it did
     */
    public Committed commit() {
        return guard.client().await(start()).committed();
    }

    /**
     * {@link #commit} without waiting here.
     *
     * @return what it did
     */
    public CompletableFuture<Committed> commitAsync() {
        return guard.client().async(start(), Completion::committed);
    }

    private Dispatcher.Start start() {
        int[] kinds = steps.stream().mapToInt(Step::kind).toArray();
        byte[][] keys = steps.stream().map(Step::key).toArray(byte[][]::new);
        @Nullable byte[][] values = steps.stream().map(Step::value).toArray(byte[][]::new);
        return guard.transaction(kinds, keys, values);
    }
}

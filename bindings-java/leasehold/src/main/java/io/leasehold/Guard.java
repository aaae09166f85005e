package io.leasehold;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A lock that is held. Whoever has the guard is the owner, not a thread: any thread may use and release it.
 *
 * <p>A guard that was lost stays lost: the lock is never acquired again behind its owner's back. A guard that nobody can reach any
 * more is not released, because nobody knows whether the work that it protects is over; the log tells of it.
 */
public final class Guard implements AutoCloseable {
    private final LeaseholdClient client;
    private final String name;
    private final long handle;
    private final long token;
    private final long sequence;
    private final List<String> keys;
    private final String lease;
    private final Listeners.Hold hold;
    private final Leak leak;
    private final @Nullable HoldLimit limit;
    private final java.lang.ref.Cleaner.Cleanable cleanable;
    private final AtomicReference<@Nullable CompletableFuture<LostReason>> lost = new AtomicReference<>();

    /** The guard of what was acquired. If none can be made, nobody holds it. */
    static Guard of(Acquire acquire, Completion acquired, Listeners.Attempt attempt) {
        try {
            return new Guard(acquire, acquired, attempt);
        } catch (Throwable noMemory) {
            Native.guardFree(acquired.a());
            throw noMemory;
        }
    }

    private Guard(Acquire acquire, Completion acquired, Listeners.Attempt attempt) {
        client = acquire.client();
        name = acquire.name();
        handle = acquired.a();
        token = acquired.b();
        sequence = acquired.c();
        keys = acquired.keys();
        lease = Completion.text(acquired.second());
        hold = attempt.acquired(client, handle);
        leak = new Leak(client.state(), handle, name, token, acquire.renew());
        cleanable = LeaseholdClient.CLEANER.register(this, leak);
        limit = acquire.maxHold() == null ? null : HoldLimit.start(acquire, token);
    }

    /**
     * The name of the lock, as it was asked for.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * The fencing token: greater than that of every earlier owner of the same name. Send it along with every write that the lock
     * protects, and let the receiver refuse a smaller one than it has seen. It is the create revision of {@link #key}.
     *
     * @return the token
     */
    public long token() {
        return token;
    }

    /**
     * Tells holds apart that share a token, as those of {@link LeaseholdLock#withLocalFirst()} do: owners compare the pair (token,
     * sequence). 0 for every other hold.
     *
     * @return the sequence
     */
    public long sequence() {
        return sequence;
    }

    /**
     * The key in etcd that stands for this hold.
     *
     * @return the key, namespace included
     */
    public String key() {
        return keys.get(0);
    }

    /**
     * The keys in etcd that stand for this hold: one for each name, in the order in which they were asked for.
     *
     * @return the keys, namespace included; {@link #key} is the first
     */
    public List<String> keys() {
        return keys;
    }

    /**
     * The lease in etcd that keeps the key alive.
     *
     * @return its id, in lower-case hexadecimal as etcd's own tools print it
     */
    public String lease() {
        return lease;
    }

    /**
     * Whether the lock is certainly still held. Asks nobody: it compares the session's deadline with the clock, so the answer is
     * right at the first call after the process was frozen or the machine suspended.
     *
     * <p>The lock can be lost the moment after. What must not happen twice needs the {@link #token} at its receiver.
     *
     * @return whether it is certainly held
     */
    public boolean held() {
        return !isOverLimit() && Native.guardHeld(handle);
    }

    /**
     * How long the lock is certainly still held if no renewal succeeds from now on.
     *
     * @return the time; zero if it is lost or released
     */
    public Duration remaining() {
        long nanos = Native.guardRemaining(handle);
        return Duration.ofNanos(limit == null ? nanos : Math.min(nanos, limit.remaining()));
    }

    /**
     * Tells of the loss. A guard that is released in time never completes it.
     *
     * @return the reason, once the lock is lost
     */
    public CompletableFuture<LostReason> lost() {
        CompletableFuture<LostReason> future = lost.get();
        if (future == null) {
            CompletableFuture<LostReason> made = new CompletableFuture<>();
            if (lost.compareAndSet(null, made)) {
                watch(client, handle, made);
                future = made;
            } else {
                future = lost.get();
            }
        }
        // A copy: what one caller does with it is none of the others' business.
        return Objects.requireNonNull(future).copy();
    }

    /**
     * Calls {@code listener} when the lock is lost, on the client's executor. Not called for a guard that is released in time.
     *
     * @param listener told the reason, at most once
     */
    public void onLost(Consumer<LostReason> listener) {
        Objects.requireNonNull(listener, "listener");
        lost().thenAcceptAsync(
                reason -> {
                    try {
                        listener.accept(reason);
                    } catch (Throwable thrown) {
                        Logs.listenerFailed(thrown);
                    }
                },
                client.executor());
    }

    /**
     * Makes the hold last at least {@code span} from now, and waits for etcd's word on it.
     *
     * <p>A hold that is renewed lasts anyway; for it, this is a renewal at once and so a proof that the lock is held now. A hold
     * without renewal ends {@code span} from now instead of earlier.
     *
     * @param span 2 s to 30 days
     * @throws InvalidArgumentException if {@code span} is shorter or longer
     * @throws LockLostException if the lock is lost
     * @throws NotHeldException if it was released
     * @throws DeadlineExceededException if etcd did not answer within the request timeout
     */
    public void extend(Duration span) {
        client.await(extension(span));
    }

    /**
     * {@link #extend} without waiting here.
     *
     * @param span 2 s to 30 days
     * @return done when etcd has confirmed it
     */
    public CompletableFuture<@Nullable Void> extendAsync(Duration span) {
        return client.async((queue, tag) -> extension(span).start(queue, tag), done -> null);
    }

    /**
     * Proclaims another value, if this guard still leads its election.
     *
     * @param value what observers are told from now on
     * @throws InvalidArgumentException if this is no guard of a campaign
     * @throws LockLostException if the leadership is lost: nothing was proclaimed
     * @throws NotHeldException if it was resigned
     */
    public void proclaim(byte[] value) {
        client.await(proclamation(value));
    }

    /**
     * {@link #proclaim(byte[])} with a text, in UTF-8.
     *
     * @param value what observers are told from now on
     */
    public void proclaim(String value) {
        proclaim(bytes(value));
    }

    /**
     * {@link #proclaim(byte[])} without waiting here.
     *
     * @param value what observers are told from now on
     * @return done when etcd has confirmed it
     */
    public CompletableFuture<@Nullable Void> proclaimAsync(byte[] value) {
        return client.async(proclamation(value), done -> null);
    }

    /**
     * Writes {@code value} under {@code key} if the lock is still held, in one transaction with the check of the fencing token.
     * It is not repeated, because a repeated write could undo a later one.
     *
     * @param key the key, below the client's namespace
     * @param value the value
     * @return the revision of the write
     * @throws LockLostException if the hold's key is gone: nothing was written
     * @throws NotHeldException if the lock was released
     * @throws DeadlineExceededException or {@link UnavailableException} if there was no answer: it may have been written
     */
    public long put(byte[] key, byte[] value) {
        return client.await(write(key, value)).a();
    }

    /**
     * {@link #put(byte[], byte[])} with texts, in UTF-8.
     *
     * @param key the key, below the client's namespace
     * @param value the value
     * @return the revision of the write
     */
    public long put(String key, String value) {
        return put(bytes(key), bytes(value));
    }

    /**
     * {@link #put(byte[], byte[])} without waiting here.
     *
     * @param key the key, below the client's namespace
     * @param value the value
     * @return the revision of the write
     */
    public CompletableFuture<Long> putAsync(byte[] key, byte[] value) {
        return client.async(write(key, value), Completion::a);
    }

    /**
     * Deletes {@code key} if the lock is still held; errors are those of {@link #put(byte[], byte[])}.
     *
     * @param key the key, below the client's namespace
     * @return whether it existed
     */
    public boolean delete(byte[] key) {
        return client.await(deletion(key)).a() != 0;
    }

    /**
     * {@link #delete(byte[])} with a text, in UTF-8.
     *
     * @param key the key, below the client's namespace
     * @return whether it existed
     */
    public boolean delete(String key) {
        return delete(bytes(key));
    }

    /**
     * {@link #delete(byte[])} without waiting here.
     *
     * @param key the key, below the client's namespace
     * @return whether it existed
     */
    public CompletableFuture<Boolean> deleteAsync(byte[] key) {
        return client.async(deletion(key), done -> done.a() != 0);
    }

    /**
     * Reads and writes in one transaction that takes effect only if the lock is still held.
     *
     * @return a transaction to be filled and committed
     */
    public GuardedTxn txn() {
        return new GuardedTxn(this);
    }

    /**
     * Releases the lock and waits until etcd has confirmed it. A waiter of this process may go on before that.
     *
     * @throws NotHeldException if it was released before
     * @throws LockLostException if the lock was lost before: what it protected may have been done by somebody else meanwhile
     * @throws DeadlineExceededException or {@link UnavailableException} if etcd could not be asked in time: the lock is released
     *     as far as this process is concerned, its key is deleted in the background and, at the latest, ends with its lease
     */
    public void release() {
        Completion completion = awaitRelease();
        if (completion.isFailure()) {
            throw completion.failure();
        }
    }

    /**
     * {@link #release} without waiting here.
     *
     * @return done when etcd has confirmed it
     */
    public CompletableFuture<@Nullable Void> releaseAsync() {
        boolean isTooLate = isOverLimit();
        settle();
        Operation<@Nullable Void> operation = new Operation<>(client.executor(), done -> {
            if (isTooLate) {
                throw HoldLimit.passed(name);
            }
            return null;
        });
        operation.whenComplete((done, error) -> hold.ended(error instanceof LockLostException lost ? lost.reason() : null));
        return operation.start(() -> Dispatcher.start(operation, this::startRelease));
    }

    /**
     * Releases the lock, as the end of a try-with-resources statement does. Unlike {@link #release} it is silent if the lock was
     * released before, and if etcd could not be asked in time: the work is done, and the lock is on its way to be free.
     *
     * @throws LockLostException if the lock was lost before: what it protected may have been done by somebody else meanwhile
     */
    @Override
    public void close() {
        if (leak.isSettled) {
            return;
        }
        Completion completion;
        try {
            completion = awaitRelease();
        } catch (NotHeldException meanwhile) {
            return;
        }
        if (completion.is(ErrorCode.UNAVAILABLE) || completion.is(ErrorCode.DEADLINE_EXCEEDED)) {
            Logs.warn(
                    "etcd did not confirm in time that the lock {0} is released; its key is deleted in the background",
                    name);
        } else if (completion.isFailure() && !completion.is(ErrorCode.NOT_HELD)) {
            throw completion.failure();
        }
    }

    /**
     * {@link #close} without waiting here: like it, it is silent about everything but a loss.
     *
     * @return done when the lock is released, or on its way to be; fails with {@link LockLostException} if it had been lost
     */
    public CompletableFuture<@Nullable Void> closeAsync() {
        CompletableFuture<@Nullable Void> closed = new CompletableFuture<>();
        if (leak.isSettled) {
            closed.complete(null);
            return closed;
        }
        releaseAsync().whenComplete((done, error) -> {
            if (error == null
                    || error instanceof NotHeldException
                    || error instanceof UnavailableException
                    || error instanceof DeadlineExceededException) {
                closed.complete(null);
            } else {
                closed.completeExceptionally(error);
            }
        });
        return closed;
    }

    @Override
    public String toString() {
        return "Guard[" + name + ", token " + token + "]";
    }

    // --- for this package ---

    /** Releases in the background what nobody took. */
    void discard() {
        settle();
        hold.ended(null);
        Native.guardFree(handle);
    }

    Dispatcher.Start transaction(int[] kinds, byte[][] keys, @Nullable byte[][] values) {
        return (queue, tag) -> Native.guardTxn(handle, kinds, keys, values, queue, tag);
    }

    LeaseholdClient client() {
        return client;
    }

    // --- the inside ---

    private Completion awaitRelease() {
        boolean isTooLate = isOverLimit();
        settle();
        Completion completion = Waiter.start(this::startRelease).await();
        if (isTooLate && !completion.isFailure()) {
            completion = HoldLimit.passed(completion, name);
        }
        hold.ended(completion.is(ErrorCode.LOST) ? LostReason.of((int) completion.b()) : null);
        return completion;
    }

    /** Whether it has been held for longer than it may be, though etcd may not know yet: then it is lost, whatever etcd says. */
    private boolean isOverLimit() {
        return limit != null && limit.isOver();
    }

    private long startRelease(long queue, long tag) {
        return Native.guardRelease(handle, queue, tag);
    }

    private Dispatcher.Start extension(Duration span) {
        long millis = Spans.millis(span, "the span");
        return (queue, tag) -> Native.guardExtend(handle, millis, queue, tag);
    }

    private Dispatcher.Start proclamation(byte[] value) {
        Objects.requireNonNull(value, "value");
        return (queue, tag) -> Native.guardProclaim(handle, value, queue, tag);
    }

    private Dispatcher.Start write(byte[] key, byte[] value) {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
        return (queue, tag) -> Native.guardPut(handle, key, value, queue, tag);
    }

    private Dispatcher.Start deletion(byte[] key) {
        Objects.requireNonNull(key, "key");
        return (queue, tag) -> Native.guardDelete(handle, key, queue, tag);
    }

    /** The guard is released: nothing has leaked, and nothing has to be remembered for that. */
    private void settle() {
        leak.isSettled = true;
        cleanable.clean();
        if (limit != null) {
            limit.cancel();
        }
    }

    /** Has {@code future} told of the loss. */
    static void watch(LeaseholdClient client, long handle, CompletableFuture<LostReason> future) {
        try {
            Dispatcher.start(new Loss(client, future), (queue, tag) -> Native.guardLost(handle, queue, tag));
        } catch (NotHeldException released) {
            // It was released; whoever did that was told if it was lost.
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Waits for the loss. Nobody who waits for it keeps the guard alive: a forgotten one is to be noticed. */
    private record Loss(LeaseholdClient client, CompletableFuture<LostReason> future) implements Receiver {
        @Override
        public void started(long operation) {}

        @Override
        public void take(Completion completion) {
            if (completion.kind() == Completion.LOST) {
                LostReason reason = Objects.requireNonNullElse(LostReason.of((int) completion.a()), LostReason.EXPIRED);
                future.completeAsync(() -> reason, client.executor());
            }
        }
    }

    /** Waits for the end of a hold that nobody can reach any more, to free its memory. */
    private record Expiry(long handle) implements Receiver {
        @Override
        public void started(long operation) {}

        @Override
        public void take(Completion completion) {
            if (completion.last()) {
                Native.guardFree(handle);
            }
        }
    }

    /** What is said about a guard that nobody can reach any more. */
    private static final class Leak implements Runnable {
        private final ClientState client;
        private final long handle;
        private final String name;
        private final long token;
        private final boolean isRenewed;
        volatile boolean isSettled;

        Leak(ClientState client, long handle, String name, long token, boolean isRenewed) {
            this.client = client;
            this.handle = handle;
            this.name = name;
            this.token = token;
            this.isRenewed = isRenewed;
        }

        @Override
        public void run() {
            if (isSettled) {
                return;
            }
            if (client.isClosed || !Native.guardHeld(handle)) {
                // Lost, with its client or before: only the memory is left.
                Native.guardFree(handle);
                return;
            }
            // Nobody knows whether its work is over: it is not released now.
            Dispatcher.start(new Expiry(handle), (queue, tag) -> Native.guardLost(handle, queue, tag));
            if (isRenewed) {
                Logs.warn(
                        "a guard of the lock {0} (token {1}) was forgotten without release: the lock stays held until its client"
                                + " is closed; use try-with-resources",
                        name,
                        Long.toString(token));
            }
        }
    }
}

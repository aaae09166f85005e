package io.leasehold;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;

/**
 * An election: candidates queue, the first one leads until it resigns or is lost, and proclaims a value of its own meanwhile. The same
 * queue as that of Go's {@code concurrency.Election} and {@code etcdctl elect}.
 *
 * <p>A campaign gives a {@link Guard}: {@link Guard#proclaim(byte[])} changes the value, {@link Guard#release} or {@link Guard#close}
 * resigns, {@link Guard#onLost} tells of the loss. Like every guard it belongs to whoever has it.
 */
public final class LeaseholdElection {
    private final Acquire acquire;
    private final LeaseholdClient client;
    private final String name;

    LeaseholdElection(Acquire acquire) {
        this.acquire = acquire;
        client = acquire.client();
        name = acquire.name();
    }

    /**
     * The name.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * The same election, led with this TTL instead of the client's: how long it stays without a leader after that crashed.
     *
     * @param ttl at least 2 s, at most 30 days, rounded up to whole seconds
     * @return an election with this option
     */
    public LeaseholdElection withTtl(Duration ttl) {
        return new LeaseholdElection(acquire.withTtl(Objects.requireNonNull(ttl, "ttl")));
    }

    /**
     * Waits until this candidate leads, for as long as it takes.
     *
     * @param value what it proclaims then
     * @return the guard of its leadership
     * @throws InterruptedException if the thread is interrupted: it stands for election no more
     */
    public Guard campaign(byte[] value) throws InterruptedException {
        return acquire.standingWith(value).awaitOrCancel(Spans.NONE).guard();
    }

    /**
     * {@link #campaign(byte[])} with a text, in UTF-8.
     *
     * @param value what it proclaims then
     * @return the guard of its leadership
     * @throws InterruptedException if the thread is interrupted
     */
    public Guard campaign(String value) throws InterruptedException {
        return campaign(Guard.bytes(value));
    }

    /**
     * Waits until this candidate leads, for at most {@code limit}.
     *
     * @param value what it proclaims then
     * @param limit not negative
     * @return the guard of its leadership
     * @throws NotAcquiredException when the limit has passed
     * @throws InterruptedException if the thread is interrupted
     */
    public Guard campaign(byte[] value, Duration limit) throws InterruptedException {
        return acquire.standingWith(value).awaitOrCancel(Spans.wait(limit)).guard();
    }

    /**
     * {@link #campaign(byte[], Duration)} with a text, in UTF-8.
     *
     * @param value what it proclaims then
     * @param limit not negative
     * @return the guard of its leadership
     * @throws NotAcquiredException when the limit has passed
     * @throws InterruptedException if the thread is interrupted
     */
    public Guard campaign(String value, Duration limit) throws InterruptedException {
        return campaign(Guard.bytes(value), limit);
    }

    /**
     * {@link #campaign(byte[])} without waiting here. Cancelling the future ends the candidacy.
     *
     * @param value what it proclaims then
     * @return the guard to come
     */
    public CompletableFuture<Guard> campaignAsync(byte[] value) {
        return acquire.standingWith(value).async(() -> Spans.NONE);
    }

    /**
     * {@link #campaign(byte[], Duration)} without waiting here.
     *
     * @param value what it proclaims then
     * @param limit not negative
     * @return the guard to come
     */
    public CompletableFuture<Guard> campaignAsync(byte[] value, Duration limit) {
        return acquire.standingWith(value).async(() -> Spans.wait(limit));
    }

    /**
     * Who leads now. Asks etcd; it can be different the moment after.
     *
     * @return the leader, if there is one
     */
    public Optional<Leader> leader() {
        return client.await(this::startLeader).leader();
    }

    /**
     * {@link #leader} without waiting here.
     *
     * @return the leader to come, if there is one
     */
    public CompletableFuture<Optional<Leader>> leaderAsync() {
        return client.async(this::startLeader, Completion::leader);
    }

    /**
     * Tells who leads, at once and at each change of leader or proclamation, until it is closed or the client is. Needs no place in
     * the queue.
     *
     * @param listener told one change after the other, on the client's executor; the first one as soon as etcd has answered
     * @return to end it with; returned when the first one is known
     * @throws LeaseholdException if the election cannot be observed: a bad name, or no etcd
     */
    public Subscription observe(Consumer<Observed> listener) {
        try {
            return observeAsync(listener).join();
        } catch (CompletionException error) {
            throw error.getCause() instanceof LeaseholdException known ? known : error;
        }
    }

    /**
     * {@link #observe} without waiting here.
     *
     * @param listener told one change after the other, on the client's executor
     * @return to end it with, when the first one is known
     */
    public CompletableFuture<Subscription> observeAsync(Consumer<Observed> listener) {
        Objects.requireNonNull(listener, "listener");
        Observation observation = new Observation(listener, Callbacks.inOrder(client.executor()));
        try {
            client.start(observation, (queue, tag) -> Native.clientObserve(client.handle(), name, queue, tag));
        } catch (LeaseholdException error) {
            observation.begun().completeExceptionally(error);
        }
        return observation.begun();
    }

    @Override
    public String toString() {
        return "LeaseholdElection[" + name + "]";
    }

    private long startLeader(long queue, long tag) {
        return Native.clientLeader(client.handle(), name, queue, tag);
    }
}

package flashsale;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Lease;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * The lock class on jetcd that many projects copied from one another, written anew with its usual steps: a lease for each
 * lock, a put under a prefix, a read of the prefix, a watch on the predecessor, a timer that renews.
 *
 * <p>For comparison only. It takes "my predecessor is gone" for "my turn", so a predecessor that leaves the queue while
 * others wait before it lets two in. It is not told when its lease has run out: not while it waits, and not while it
 * holds. It has no token that a write could carry.
 *
 * <p>Kinder than most copies in two points: the watch starts where the read ended, so that no delete falls in between, and
 * one timer thread serves all locks.
 */
final class CopiedEtcdLock {
    private final Client client;
    private final String prefix;
    private final long ttlSeconds;
    private final Map<Thread, Hold> holds = new ConcurrentHashMap<>();
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "copied-lock-heartbeat");
        thread.setDaemon(true);
        return thread;
    });

    private static final class Hold {
        long lease;
        ByteSequence key;
        ScheduledFuture<?> heartbeat;
        int count = 1;
    }

    CopiedEtcdLock(Client client, String name, long ttlSeconds) {
        this.client = client;
        this.prefix = name + "/";
        this.ttlSeconds = ttlSeconds;
    }

    void lock() throws ExecutionException, InterruptedException {
        Hold held = holds.get(Thread.currentThread());
        if (held != null) {
            held.count++;
            return;
        }
        Hold hold = new Hold();
        Lease leases = client.getLeaseClient();
        hold.lease = leases.grant(ttlSeconds).get().getID();
        long period = Math.max(1, ttlSeconds * 1000 / 3);
        hold.heartbeat = timer.scheduleAtFixedRate(
                () -> leases.keepAliveOnce(hold.lease), period, period, TimeUnit.MILLISECONDS);
        hold.key = bytes(prefix + UUID.randomUUID());
        client.getKVClient()
                .put(hold.key, bytes(""), PutOption.builder().withLeaseId(hold.lease).build())
                .get();
        waitForPredecessor(hold.key);
        holds.put(Thread.currentThread(), hold);
    }

    void unlock() throws ExecutionException, InterruptedException {
        Hold hold = holds.get(Thread.currentThread());
        if (hold == null) {
            throw new IllegalMonitorStateException("not locked by this thread");
        }
        if (--hold.count > 0) {
            return;
        }
        holds.remove(Thread.currentThread());
        hold.heartbeat.cancel(false);
        client.getKVClient().delete(hold.key).get();
        client.getLeaseClient().revoke(hold.lease).get();
    }

    private void waitForPredecessor(ByteSequence own) throws ExecutionException, InterruptedException {
        GetOption inOrder = GetOption.builder()
                .isPrefix(true)
                .withSortField(GetOption.SortTarget.CREATE)
                .withSortOrder(GetOption.SortOrder.ASCEND)
                .build();
        GetResponse queue = client.getKVClient().get(bytes(prefix), inOrder).get();
        List<KeyValue> contenders = queue.getKvs();
        int place = 0;
        while (place < contenders.size() && !contenders.get(place).getKey().equals(own)) {
            place++;
        }
        if (place == 0) {
            return;
        }
        CountDownLatch gone = new CountDownLatch(1);
        WatchOption fromHere = WatchOption.builder()
                .withRevision(queue.getHeader().getRevision() + 1)
                .build();
        ByteSequence predecessor = contenders.get(place - 1).getKey();
        try (Watch.Watcher watcher = client.getWatchClient().watch(predecessor, fromHere, response -> {
            for (WatchEvent event : response.getEvents()) {
                if (event.getEventType() == WatchEvent.EventType.DELETE) {
                    gone.countDown();
                }
            }
        })) {
            gone.await();
        }
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }
}

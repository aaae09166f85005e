package flashsale;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The lock of the flash sale that many know: a {@link Lock} around jetcd's lock client, written anew with its usual steps. A lease
 * for each hold, renewed once every 0.8 TTL by a scheduler, a map of threads for re-entrance.
 *
 * <p>For comparison only; docs/copied-classes.md goes through it line by line. Kinder than most copies in one point: its one scheduler
 * serves all holds of the object, and its thread ends with the program.
 */
final class ArticleEtcdLock implements Lock {
    private static final Logger log = LoggerFactory.getLogger(ArticleEtcdLock.class);

    private final Client client;
    private final ByteSequence name;
    private final long ttlSeconds;
    private final Map<Thread, LockData> held = new ConcurrentHashMap<>();
    private final ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "article-lock-keep-alive");
        thread.setDaemon(true);
        return thread;
    });

    private static final class LockData {
        long lease;
        ByteSequence key;
        int count = 1;
        java.util.concurrent.ScheduledFuture<?> keepAlive;
    }

    ArticleEtcdLock(Client client, String name, long ttlSeconds) {
        this.client = client;
        this.name = ByteSequence.from(name, StandardCharsets.UTF_8);
        this.ttlSeconds = ttlSeconds;
    }

    @Override
    public void lock() {
        LockData own = held.get(Thread.currentThread());
        if (own != null) {
            own.count++;
            return;
        }
        LockData data = new LockData();
        try {
            data.lease = client.getLeaseClient().grant(ttlSeconds).get().getID();
            long period = Math.max(1, ttlSeconds * 800);
            data.keepAlive = scheduler.scheduleAtFixedRate(
                    () -> client.getLeaseClient().keepAliveOnce(data.lease), period, period, TimeUnit.MILLISECONDS);
            data.key = client.getLockClient().lock(name, data.lease).get().getKey();
            held.put(Thread.currentThread(), data);
        } catch (InterruptedException | ExecutionException failed) {
            // As in the article: the caller is not told, and goes on.
            log.error("lock failed", failed);
        }
    }

    @Override
    public void unlock() {
        LockData data = held.get(Thread.currentThread());
        if (data == null || --data.count > 0) {
            return;
        }
        held.remove(Thread.currentThread());
        data.keepAlive.cancel(true);
        try {
            client.getLockClient().unlock(data.key).get();
            client.getLeaseClient().revoke(data.lease).get();
        } catch (InterruptedException | ExecutionException failed) {
            log.error("unlock failed", failed);
        }
    }

    @Override
    public void lockInterruptibly() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean tryLock() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException();
    }
}

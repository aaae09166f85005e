package flashsale;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import java.util.concurrent.locks.Lock;
import java.util.function.Function;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/**
 * The purchase under leasehold's {@link Lock}, re-entrant for each thread, in the place of the article's. It has no token to send
 * along: who was frozen between check and write can write late, under any lock (the guard and {@code @Locked} beside it are fenced).
 */
@Component("plain")
final class PlainSaleLock implements SaleLock {
    private final Lock lock;
    private final Warehouse warehouse;

    PlainSaleLock(LeaseholdClient client, StringRedisTemplate redis) {
        this.lock = client.lock("/sale/plain");
        this.warehouse = new RedisWarehouse(redis);
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        lock.lock();
        try {
            return inner(purchase);
        } finally {
            unlock();
        }
    }

    /** Locks again, as a method does that is called with and without the lock. */
    private Outcome inner(Function<Warehouse, Outcome> purchase) {
        lock.lock();
        try {
            return purchase.apply(warehouse);
        } finally {
            unlock();
        }
    }

    /** Of a lost lock we are told here; what was bought is bought. */
    private void unlock() {
        try {
            lock.unlock();
        } catch (LeaseholdException lost) {
            // The customer has the piece; a shop would look at this order again.
        }
    }
}

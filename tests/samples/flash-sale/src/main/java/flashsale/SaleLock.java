package flashsale;

import java.util.function.Function;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** One way to let only one purchase at a time happen. */
interface SaleLock {
    /** Runs the purchase while the lock is held; the warehouse that it gets is the one that suits this lock. */
    Outcome exclusively(Function<Warehouse, Outcome> purchase);

    /** No lock at all: what goes wrong then. */
    @Component("none")
    final class None implements SaleLock {
        private final Warehouse warehouse;

        None(StringRedisTemplate redis) {
            this.warehouse = new RedisWarehouse(redis);
        }

        @Override
        public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
            return purchase.apply(warehouse);
        }
    }
}

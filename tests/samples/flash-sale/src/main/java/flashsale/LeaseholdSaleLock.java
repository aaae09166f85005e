package flashsale;

import io.leasehold.LeaseholdException;
import io.leasehold.spring.CurrentLock;
import io.leasehold.spring.Locked;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** The purchase under the lock of leasehold, its token on every command to Redis. */
@Component("leasehold")
class LeaseholdSaleLock implements SaleLock {
    private static final Logger log = LoggerFactory.getLogger(LeaseholdSaleLock.class);

    private final Exclusive exclusive;

    LeaseholdSaleLock(Exclusive exclusive) {
        this.exclusive = exclusive;
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        try {
            return exclusive.run(purchase);
        } catch (FencedWarehouse.Fenced refused) {
            log.warn("purchase refused: {}", refused.getMessage());
            return Outcome.FENCED;
        } catch (LeaseholdException error) {
            // Not to be had, or lost while it was held; what was written by then was written by the owner.
            log.warn("purchase without the lock: {}", error.toString());
            return Outcome.NO_LOCK;
        }
    }

    /** What runs under the lock: a bean of its own, as calls within one bean do not pass through {@code @Locked}. */
    @Component
    static class Exclusive {
        private final StringRedisTemplate redis;

        Exclusive(StringRedisTemplate redis) {
            this.redis = redis;
        }

        @Locked(name = "/sale/leasehold", waitFor = "60s")
        public Outcome run(Function<Warehouse, Outcome> purchase) {
            return purchase.apply(new FencedWarehouse(redis, CurrentLock.token()));
        }
    }
}

package flashsale;

import java.time.Duration;
import java.util.function.Function;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/**
 * The purchase under {@code SET lock … EX ttl NX} and {@code DEL lock}, as it is in many projects: not renewed, and the delete does not
 * look whose lock it is. For comparison only.
 */
@Component("redis")
final class SetNxSaleLock implements SaleLock {
    private static final String KEY = "sale-lock";
    private static final long PAUSE_MILLISECONDS = 50;

    private final StringRedisTemplate redis;
    private final Duration ttl;
    private final Warehouse warehouse;

    SetNxSaleLock(StringRedisTemplate redis, @Value("${leasehold.ttl}") String ttl) {
        this.redis = redis;
        this.ttl = DurationStyle.detectAndParse(ttl);
        this.warehouse = new RedisWarehouse(redis);
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        while (!Boolean.TRUE.equals(redis.opsForValue().setIfAbsent(KEY, "1", ttl))) {
            try {
                Thread.sleep(PAUSE_MILLISECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return Outcome.NO_LOCK;
            }
        }
        try {
            return purchase.apply(warehouse);
        } finally {
            redis.delete(KEY);
        }
    }
}

package flashsale;

import java.time.Duration;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** The purchase: look what is left, think, and write one less. */
@Component
class Sale {
    private final StringRedisTemplate redis;
    private final String instance;

    Sale(StringRedisTemplate redis, @Value("${sale.instance}") String instance) {
        this.redis = redis;
        this.instance = instance;
    }

    /**
     * Buys one piece from the warehouse.
     *
     * @param think how long to stay between the read and the write; whoever stays says so in Redis first
     */
    Outcome buy(Warehouse warehouse, Duration think) {
        long left = warehouse.stock();
        if (left <= 0) {
            return Outcome.SOLD_OUT;
        }
        if (think.toMillis() > 0) {
            redis.opsForValue().set("thinking", instance);
            pause(think);
        }
        warehouse.putStock(left - 1);
        warehouse.addLucky();
        return Outcome.BOUGHT;
    }

    private static void pause(Duration time) {
        try {
            Thread.sleep(time.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while buying", interrupted);
        }
    }
}

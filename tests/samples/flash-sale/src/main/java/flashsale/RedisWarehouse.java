package flashsale;

import org.springframework.data.redis.core.StringRedisTemplate;

/** Plain commands: Redis believes whoever writes. */
final class RedisWarehouse implements Warehouse {
    private final StringRedisTemplate redis;

    RedisWarehouse(StringRedisTemplate redis) {
        this.redis = redis;
    }

    @Override
    public long stock() {
        return Long.parseLong(redis.opsForValue().get("stock"));
    }

    @Override
    public void putStock(long left) {
        redis.opsForValue().set("stock", Long.toString(left));
    }

    @Override
    public void addLucky() {
        redis.opsForValue().increment("lucky");
    }
}

package flashsale;

import java.util.ArrayList;
import java.util.List;
import org.springframework.core.io.ClassPathResource;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

/**
 * Commands that carry the fencing token of the lock: Redis refuses them once it has seen a larger one.
 *
 * <p>Reads carry it too. Otherwise an old owner could still write between the read and the write of the new one.
 */
final class FencedWarehouse implements Warehouse {
    /** Another owner has been here since. */
    static final class Fenced extends RuntimeException {
        Fenced(long token, Object seen) {
            super("token " + token + " is older than " + seen + ", which Redis has seen");
        }
    }

    @SuppressWarnings("rawtypes")
    private static final RedisScript<List> SCRIPT = RedisScript.of(new ClassPathResource("fenced.lua"), List.class);

    private final StringRedisTemplate redis;
    private final long token;

    FencedWarehouse(StringRedisTemplate redis, long token) {
        this.redis = redis;
        this.token = token;
    }

    @Override
    public long stock() {
        return Long.parseLong(fenced("GET", "stock").toString());
    }

    @Override
    public void putStock(long left) {
        fenced("SET", "stock", Long.toString(left));
    }

    @Override
    public void addLucky() {
        fenced("INCR", "lucky");
    }

    private Object fenced(String command, String key, String... arguments) {
        List<String> all = new ArrayList<>(List.of(Long.toString(token), command));
        all.addAll(List.of(arguments));
        List<?> reply = redis.execute(SCRIPT, List.of("fence", key), all.toArray());
        if (((Long) reply.get(0)) == 0) {
            throw new Fenced(token, reply.get(1));
        }
        return reply.get(1);
    }
}

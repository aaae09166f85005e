package flashsale;

import io.etcd.jetcd.Client;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** The purchase under the copied lock. */
@Component("jetcd")
final class JetcdSaleLock implements SaleLock, DisposableBean {
    private static final Logger log = LoggerFactory.getLogger(JetcdSaleLock.class);

    private final Client client;
    private final CopiedEtcdLock lock;
    private final Warehouse warehouse;

    JetcdSaleLock(
            @Value("${leasehold.endpoints}") String endpoints,
            @Value("${leasehold.ttl}") String ttl,
            StringRedisTemplate redis) {
        client = Client.builder().endpoints(endpoints.split(",")).build();
        lock = new CopiedEtcdLock(client, "/sale/jetcd", DurationStyle.detectAndParse(ttl).toSeconds());
        warehouse = new RedisWarehouse(redis);
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        try {
            lock.lock();
        } catch (ExecutionException | InterruptedException failed) {
            log.warn("no lock: {}", failed.toString());
            return Outcome.NO_LOCK;
        }
        try {
            return purchase.apply(warehouse);
        } finally {
            try {
                lock.unlock();
            } catch (ExecutionException | InterruptedException failed) {
                // What the copies do, too: the purchase has happened, whoever held the lock.
                log.warn("unlock: {}", failed.toString());
            }
        }
    }

    @Override
    public void destroy() {
        client.close();
    }
}

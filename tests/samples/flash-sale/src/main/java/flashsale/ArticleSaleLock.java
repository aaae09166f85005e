package flashsale;

import io.etcd.jetcd.Client;
import java.util.function.Function;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** The purchase under the article's lock. */
@Component("article")
final class ArticleSaleLock implements SaleLock, DisposableBean {
    private final Client client;
    private final ArticleEtcdLock lock;
    private final Warehouse warehouse;

    ArticleSaleLock(
            @Value("${etcd.servers}") String servers, @Value("${leasehold.ttl}") String ttl, StringRedisTemplate redis) {
        client = Client.builder().endpoints(servers.split(",")).build();
        lock = new ArticleEtcdLock(client, "/sale/article", DurationStyle.detectAndParse(ttl).toSeconds());
        warehouse = new RedisWarehouse(redis);
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        lock.lock();
        try {
            return purchase.apply(warehouse);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void destroy() {
        client.close();
    }
}

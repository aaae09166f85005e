package flashsale;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LeaseholdLock;
import java.time.Duration;
import java.util.function.Function;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** The purchase under a guard of leasehold, without Spring's help: the guard knows its token, and any thread may hold it. */
@Component("guard")
final class GuardSaleLock implements SaleLock {
    private final LeaseholdLock lock;
    private final StringRedisTemplate redis;

    GuardSaleLock(LeaseholdClient client, StringRedisTemplate redis) {
        this.lock = client.lock("/sale/guard");
        this.redis = redis;
    }

    @Override
    public Outcome exclusively(Function<Warehouse, Outcome> purchase) {
        try (Guard guard = lock.acquire(Duration.ofSeconds(60))) {
            return purchase.apply(new FencedWarehouse(redis, guard.token()));
        } catch (FencedWarehouse.Fenced refused) {
            return Outcome.FENCED;
        } catch (LeaseholdException error) {
            return Outcome.NO_LOCK;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return Outcome.NO_LOCK;
        }
    }
}

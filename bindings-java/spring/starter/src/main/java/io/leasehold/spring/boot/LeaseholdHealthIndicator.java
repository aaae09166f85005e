package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import java.time.Duration;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/** Up if a majority of etcd answers within the request timeout. */
public final class LeaseholdHealthIndicator extends AbstractHealthIndicator {
    private final LeaseholdClient client;

    /**
     * The health of one client.
     *
     * @param client the client
     */
    public LeaseholdHealthIndicator(LeaseholdClient client) {
        super("etcd did not answer");
        this.client = client;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        health.withDetail("identity", client.identity());
        long begun = System.nanoTime();
        try {
            client.ping();
        } catch (LeaseholdException error) {
            health.down(error).withDetail("code", error.code());
            return;
        }
        health.up().withDetail("ping", Duration.ofNanos(System.nanoTime() - begun).toString());
    }
}

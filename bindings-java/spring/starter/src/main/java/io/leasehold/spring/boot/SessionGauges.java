package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.SessionState;
import io.leasehold.SessionState.Health;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/** How the sessions of each client feel: {@code leasehold.session}, 1 for the state that it is in and 0 for the others. */
final class SessionGauges implements MeterBinder {
    private final Supplier<Map<String, LeaseholdClient>> clients;

    SessionGauges(Supplier<Map<String, LeaseholdClient>> clients) {
        this.clients = clients;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        clients.get().forEach((name, client) -> {
            AtomicReference<Health> health = new AtomicReference<>(Health.OK);
            client.onState((SessionState state) -> health.set(state.health()));
            for (Health each : Health.values()) {
                Gauge.builder("leasehold.session", () -> health.get() == each ? 1 : 0)
                        .description("1 for the state that the client's session is in")
                        .tag("client", name)
                        .tag("state", each.name().toLowerCase(Locale.ROOT))
                        .strongReference(true)
                        .register(registry);
            }
        });
    }
}

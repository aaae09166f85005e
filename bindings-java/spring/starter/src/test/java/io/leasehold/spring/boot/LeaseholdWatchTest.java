package io.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.test.LeaseholdExtension;
import io.micrometer.common.KeyValue;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** What of the present can be seen: who waits, how sessions feel; and observations, which become spans. */
class LeaseholdWatchTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        LeaseholdAutoConfiguration.class,
                        LeaseholdMetricsAutoConfiguration.class,
                        LeaseholdObservationAutoConfiguration.class,
                        MetricsAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class))
                .withPropertyValues("leasehold.endpoints=" + leasehold.url());
    }

    @Test
    void whoWaitsIsCounted() {
        application().withBean(SimpleMeterRegistry.class).run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            LeaseholdClient client = context.getBean(LeaseholdClient.class);
            assertThat(meters.get("leasehold.waiting").gauge().value()).isZero();
            Guard taken = leasehold.newClient().lock("w").acquire();
            CompletableFuture<Guard> first = client.lock("w").acquireAsync();
            CompletableFuture<Guard> second = client.lock("w").acquireAsync();
            assertThat(meters.get("leasehold.waiting").gauge().value()).isEqualTo(2);
            second.cancel(false);
            assertThat(meters.get("leasehold.waiting").gauge().value()).isEqualTo(1);
            taken.release();
            try (Guard won = first.get(1, TimeUnit.MINUTES)) {
                assertThat(meters.get("leasehold.waiting").gauge().value()).isZero();
                assertThat(meters.get("leasehold.held").gauge().value()).isEqualTo(1);
                assertThat(won.held()).isTrue();
            }
        });
    }

    @Test
    void theStateOfASessionIsSeen() {
        application().withBean(SimpleMeterRegistry.class).run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            assertThat(state(meters, "ok")).isEqualTo(1);
            assertThat(state(meters, "lost")).isZero();
            Guard guard = context.getBean(LeaseholdClient.class).lock("s").acquire();
            leasehold.client().lock("s").isLocked();
            context.getBean(LeaseholdClient.class).close();
            LeaseholdExtension.await("the loss is seen", () -> state(meters, "lost") == 1 && state(meters, "ok") == 0);
            assertThat(guard.held()).isFalse();
        });
    }

    private static double state(MeterRegistry meters, String state) {
        return meters.get("leasehold.session").tag("client", "leaseholdClient").tag("state", state).gauge().value();
    }

    /** Notes what is observed, as a tracer would. */
    private static final class Notes implements ObservationHandler<Observation.Context> {
        final List<String> heard = new CopyOnWriteArrayList<>();

        @Override
        public void onStop(Observation.Context context) {
            String tags = context.getLowCardinalityKeyValues().stream()
                    .map(KeyValue::getValue)
                    .collect(Collectors.joining(","));
            String names = context.getHighCardinalityKeyValues().stream()
                    .map(KeyValue::getValue)
                    .collect(Collectors.joining(","));
            var parent = context.getParentObservation();
            heard.add(context.getName() + " [" + tags + "] " + names + " in "
                    + (parent == null ? "nothing" : parent.getContextView().getName()));
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return true;
        }
    }

    @Test
    void acquiresAndHoldsAreObserved() {
        Notes notes = new Notes();
        ObservationRegistry registry = ObservationRegistry.create();
        registry.observationConfig().observationHandler(notes);
        application().withBean(ObservationRegistry.class, () -> registry).run(context -> {
            LeaseholdClient client = context.getBean(LeaseholdClient.class);
            Observation.createNotStarted("request", registry).observeChecked(() -> {
                try (Guard guard = client.lock("o").acquire()) {
                    assertThat(client.lock("o").tryAcquire()).isEmpty();
                    assertThat(guard.held()).isTrue();
                }
                return null;
            });
            Guard lost = client.lock("o").acquireAsync().get(1, TimeUnit.MINUTES);
            leasehold.lose("o");
            LeaseholdExtension.await("the loss is observed", () -> notes.heard.size() == 6);
            assertThat(notes.heard)
                    .containsExactly(
                            "leasehold.lock.acquire [acquired] o in request",
                            "leasehold.lock.acquire [busy] o in request",
                            "leasehold.lock.hold [none] o in request",
                            "request [] in nothing".replace("[] in", "[]  in"),
                            "leasehold.lock.acquire [acquired] o in nothing",
                            "leasehold.lock.hold [key_deleted] o in nothing");
            assertThat(lost.held()).isFalse();
        });
        application()
                .withBean(ObservationRegistry.class, () -> registry)
                .withPropertyValues("leasehold.observations.enabled=false")
                .run(context -> {
                    context.getBean(LeaseholdClient.class).lock("o").acquire().close();
                    assertThat(notes.heard).hasSize(6);
                });
    }
}

package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;

/** Meters, where the application has a registry for them. */
@AutoConfiguration(
        before = LeaseholdAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration",
            // In Spring Boot 3.
            "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration"
        })
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
@ConditionalOnBooleanProperty(
        name = {"leasehold.enabled", "leasehold.metrics.enabled"},
        matchIfMissing = true)
public class LeaseholdMetricsAutoConfiguration {
    @Bean
    LeaseholdMeters leaseholdMeters(MeterRegistry registry, LeaseholdProperties properties) {
        return new LeaseholdMeters(registry, properties.metrics().names());
    }

    @Bean
    MeterBinder leaseholdGauges(HeldLocks held) {
        return registry -> {
            Gauge.builder("leasehold.held", held, HeldLocks::count)
                    .description("Locks that are held now")
                    .register(registry);
            Gauge.builder("leasehold.waiting", held, HeldLocks::waiting)
                    .description("Acquires that are under way now: most of them wait for their turn")
                    .register(registry);
        };
    }

    @Bean
    SessionGauges leaseholdSessionGauges(ListableBeanFactory beans) {
        return new SessionGauges(() -> beans.getBeansOfType(LeaseholdClient.class));
    }
}

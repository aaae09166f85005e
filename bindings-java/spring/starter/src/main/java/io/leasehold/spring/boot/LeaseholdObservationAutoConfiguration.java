package io.leasehold.spring.boot;

import io.micrometer.observation.ObservationRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;

/** Observations of acquires and holds, where the application has a registry for them: spans, where it traces. */
@AutoConfiguration(
        before = LeaseholdAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.micrometer.observation.autoconfigure.ObservationAutoConfiguration",
            // In Spring Boot 3.
            "org.springframework.boot.actuate.autoconfigure.observation.ObservationAutoConfiguration"
        })
@ConditionalOnClass(ObservationRegistry.class)
@ConditionalOnBean(ObservationRegistry.class)
@ConditionalOnBooleanProperty(
        name = {"leasehold.enabled", "leasehold.observations.enabled"},
        matchIfMissing = true)
public class LeaseholdObservationAutoConfiguration {
    @Bean
    LeaseholdObservations leaseholdObservations(ObservationRegistry registry) {
        return new LeaseholdObservations(registry);
    }
}

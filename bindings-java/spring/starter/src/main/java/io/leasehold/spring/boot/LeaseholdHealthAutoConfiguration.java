package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import java.util.Map;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;

/** The health of the client, where the application has health at all; {@code management.health.leasehold.enabled=false} ends it. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(LeaseholdClient.class)
@ConditionalOnEnabledHealthIndicator("leasehold")
public class LeaseholdHealthAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(name = {"leaseholdHealthIndicator", "leaseholdHealthContributor"})
    HealthContributor leaseholdHealthIndicator(Map<String, LeaseholdClient> clients) {
        return clients.size() == 1
                ? new LeaseholdHealthIndicator(clients.values().iterator().next())
                : CompositeHealthContributor.fromMap(clients, LeaseholdHealthIndicator::new);
    }
}

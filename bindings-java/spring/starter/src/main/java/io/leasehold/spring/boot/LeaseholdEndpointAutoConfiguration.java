package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** The endpoint {@code locks}, where it is exposed: {@code management.endpoints.web.exposure.include=locks}. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass({Endpoint.class, ConditionalOnAvailableEndpoint.class})
@ConditionalOnSingleCandidate(LeaseholdClient.class)
public class LeaseholdEndpointAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnAvailableEndpoint
    LocksEndpoint leaseholdLocksEndpoint(LeaseholdClient client, HeldLocks held) {
        return new LocksEndpoint(client, held);
    }
}

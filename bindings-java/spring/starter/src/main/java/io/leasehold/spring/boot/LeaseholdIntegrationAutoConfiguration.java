package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.spring.integration.LeaseholdLockRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/** The lock registry of Spring Integration, where both it (7 or newer) and {@code leasehold-spring-integration} are there. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass({LeaseholdLockRegistry.class, DistributedLock.class})
@ConditionalOnSingleCandidate(LeaseholdClient.class)
@ConditionalOnBooleanProperty(name = "leasehold.integration.enabled", matchIfMissing = true)
public class LeaseholdIntegrationAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    LeaseholdLockRegistry leaseholdLockRegistry(LeaseholdClient client, LeaseholdProperties properties) {
        return new LeaseholdLockRegistry(client, properties.integration().prefix());
    }
}

package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.shedlock.LeaseholdLockProvider;
import net.javacrumbs.shedlock.core.LockProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** The lock provider of ShedLock, where both it and {@code leasehold-shedlock} are there. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass({LeaseholdLockProvider.class, LockProvider.class})
@ConditionalOnSingleCandidate(LeaseholdClient.class)
@ConditionalOnBooleanProperty(name = "leasehold.shedlock.enabled", matchIfMissing = true)
public class LeaseholdShedLockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockProvider.class)
    LeaseholdLockProvider leaseholdLockProvider(LeaseholdClient client, LeaseholdProperties properties) {
        return new LeaseholdLockProvider(client, properties.shedlock().prefix());
    }
}

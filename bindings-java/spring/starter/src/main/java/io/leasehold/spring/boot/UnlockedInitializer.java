package io.leasehold.spring.boot;

import io.leasehold.spring.LockedBeanPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * Refuses beans with {@code @Locked} where nothing takes the lock: the auto-configuration is excluded or turned off, or is not
 * part of a test's slice. Their methods would run without it.
 */
final class UnlockedInitializer implements ApplicationContextInitializer<ConfigurableApplicationContext> {
    @Override
    public void initialize(ConfigurableApplicationContext context) {
        context.addBeanFactoryPostProcessor(beans -> beans.addBeanPostProcessor(new Refusal(beans)));
    }

    private record Refusal(ConfigurableListableBeanFactory beans) implements BeanPostProcessor {
        @Override
        public Object postProcessBeforeInitialization(Object bean, String name) {
            return refuseUnlocked(bean, name);
        }

        /** Products of factories are seen here only. */
        @Override
        public Object postProcessAfterInitialization(Object bean, String name) {
            return refuseUnlocked(bean, name);
        }

        private Object refuseUnlocked(Object bean, String name) {
            if (beans.getBeanNamesForType(LockedBeanPostProcessor.class, false, false).length == 0
                    && LockedBeanPostProcessor.isLocked(AopUtils.getTargetClass(bean))) {
                throw new IllegalStateException("@Locked on methods of the bean \"" + name + "\" (" + AopUtils.getTargetClass(bean).getName()
                        + "), but nothing here takes the lock: leasehold.enabled is false, its auto-configuration is excluded, or this"
                        + " test has a slice without it. For locks without a server set leasehold.endpoints=memory://local and"
                        + " leave leasehold.enabled alone; in a slice add"
                        + " @ImportAutoConfiguration(LeaseholdAutoConfiguration.class)");
            }
            return bean;
        }
    }
}

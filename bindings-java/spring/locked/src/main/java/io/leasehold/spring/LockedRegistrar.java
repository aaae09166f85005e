package io.leasehold.spring;

import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.support.BeanDefinitionBuilder;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.core.type.AnnotationMetadata;

/** What {@link EnableLocked} brings. */
final class LockedRegistrar implements ImportBeanDefinitionRegistrar {
    private static final String NAME = "leaseholdLockedBeanPostProcessor";

    @Override
    public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
        Map<String, @Nullable Object> options = importing.getAnnotationAttributes(EnableLocked.class.getName());
        if (options == null || registry.containsBeanDefinition(NAME)) {
            return;
        }
        registry.registerBeanDefinition(
                NAME,
                BeanDefinitionBuilder.genericBeanDefinition(LockedBeanPostProcessor.class)
                        .setRole(BeanDefinition.ROLE_INFRASTRUCTURE)
                        .addPropertyValue("lockOrder", options.get("order"))
                        .addPropertyValue("outerTransaction", options.get("outerTransaction"))
                        .addPropertyValue("proxyTargetClass", options.get("proxyTargetClass"))
                        .getBeanDefinition());
    }
}

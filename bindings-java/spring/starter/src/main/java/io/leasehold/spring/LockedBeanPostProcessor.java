package io.leasehold.spring;

import io.leasehold.LeaseholdClient;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.StringValueResolver;

/**
 * Puts the lock around the beans that have methods with {@link Locked}, outside of everything that is around them already:
 * transactions have their proxy by then, whatever their order. Only {@code @Async} comes later and so stays outside: there
 * the lock belongs to the thread that works.
 */
public final class LockedBeanPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {
    private static final long serialVersionUID = 1;

    private final transient LockedInterceptor interceptor;
    /** Classes that were looked at. */
    private final transient Set<Class<?>> checked = ConcurrentHashMap.newKeySet();

    /**
     * A processor for all beans.
     *
     * @param client gives the client, when the first lock is taken
     * @param placeholders fills in {@code ${…}} in names and times
     */
    public LockedBeanPostProcessor(Supplier<LeaseholdClient> client, StringValueResolver placeholders) {
        interceptor = new LockedInterceptor(client, placeholders);
        advisor = new DefaultPointcutAdvisor(new AnnotationMatchingPointcut(null, Locked.class, true), interceptor);
        setBeforeExistingAdvisors(true);
        // Before those of @Async and @Scheduled, which come last.
        setOrder(Ordered.LOWEST_PRECEDENCE - 1);
    }

    /** Refuses what could not be locked: when the application starts, not when the method is called. */
    @Override
    public Object postProcessBeforeInitialization(Object bean, String beanName) {
        Class<?> type = AopUtils.getTargetClass(bean);
        if (checked.add(type) && AnnotationUtils.isCandidateClass(type, Locked.class)) {
            check(type);
        }
        return bean;
    }

    private void check(Class<?> type) {
        Set<Method> found = MethodIntrospector.selectMethods(type, (Method method) -> LockedMethod.find(method) != null);
        found.forEach(interceptor::method);
        if (!found.isEmpty() && Modifier.isFinal(type.getModifiers())) {
            throw new IllegalStateException("@Locked on " + found.iterator().next() + ": its class is final, so that no proxy can"
                    + " take the lock; make it an ordinary class");
        }
    }
}

package io.leasehold.spring;

import io.leasehold.LeaseholdClient;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.ClassUtils;

/**
 * Puts the lock around the beans that have methods with {@link Locked}: among what is around them already, where its order says.
 * Transactions have their proxy by then. Only {@code @Async}, {@code @Retryable} and {@code @ConcurrencyLimit} come later and so
 * stay outside: there the lock belongs to the thread that works, and to the attempt.
 */
public final class LockedBeanPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor
        implements SmartInitializingSingleton {
    private static final long serialVersionUID = 1;
    private static final System.Logger LOGGER = System.getLogger(LockedBeanPostProcessor.class.getName());

    /** Methods of the classes that were looked at. */
    private final transient Map<Class<?>, Set<Method>> locked = new ConcurrentHashMap<>();

    private transient @Nullable ConfigurableListableBeanFactory beans;
    private transient @Nullable LockedInterceptor interceptor;

    /** Where the lock stands among the advices of a bean. */
    private int lockOrder = Ordered.HIGHEST_PRECEDENCE;

    /** What becomes of a lock that is taken within a transaction. */
    private OuterTransaction outerTransaction = OuterTransaction.HOLD;

    /** A processor for all beans of the factory that it belongs to. */
    public LockedBeanPostProcessor() {
        setBeforeExistingAdvisors(true);
        // Before those that put themselves outside of everything: @Async and @Scheduled, which come last, and @Retryable and
        // @ConcurrencyLimit, which come just before. A retry takes the lock anew, and does not hold it while it waits.
        setOrder(Ordered.LOWEST_PRECEDENCE - 2);
    }

    /**
     * Where the lock stands among what else is around a method.
     *
     * @param order what has a smaller one is outside of it; outside of everything by default
     */
    public void setLockOrder(int order) {
        lockOrder = order;
    }

    /**
     * What to do where a transaction has begun before the lock.
     *
     * @param policy to keep the lock until that has ended, by default
     */
    public void setOuterTransaction(OuterTransaction policy) {
        outerTransaction = policy;
    }

    @Override
    public void setBeanFactory(BeanFactory factory) {
        super.setBeanFactory(factory);
        beans = (ConfigurableListableBeanFactory) factory;
        LockedInterceptor made = new LockedInterceptor((ConfigurableBeanFactory) factory, outerTransaction);
        interceptor = made;
        DefaultPointcutAdvisor lock =
                new DefaultPointcutAdvisor(new AnnotationMatchingPointcut(null, Locked.class, true), made);
        lock.setOrder(lockOrder);
        advisor = lock;
    }

    /** The methods of a class that want a lock, by an annotation of their own, of what they override, or of an interface. */
    static Set<Method> lockedMethods(Class<?> type) {
        if (!AnnotationUtils.isCandidateClass(type, Locked.class)) {
            return Set.of();
        }
        Set<Method> found = new LinkedHashSet<>(
                MethodIntrospector.selectMethods(type, (Method method) -> LockedMethod.find(method) != null));
        // Of a proxy, whose own methods say nothing: those of its interfaces.
        for (Class<?> each : ClassUtils.getAllInterfacesForClassAsSet(type)) {
            if (AnnotationUtils.isCandidateClass(each, Locked.class)) {
                found.addAll(MethodIntrospector.selectMethods(each, (Method method) -> LockedMethod.find(method) != null));
            }
        }
        return found;
    }

    /** Refuses what could not be locked: when the application starts, not when the method is called. */
    @Override
    public Object postProcessBeforeInitialization(Object bean, String beanName) {
        check(bean);
        return bean;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String beanName) {
        // Products of factories are seen here only.
        check(bean);
        outliveThem(bean, beanName);
        Advisor lock = advisor;
        if (lock != null && bean instanceof Advised advised && !advised.isFrozen() && isLocked(bean)) {
            if (advised.indexOf(lock) < 0) {
                advised.addAdvisor(place(advised), lock);
            }
            return bean;
        }
        return super.postProcessAfterInitialization(bean, beanName);
    }

    /** A client is destroyed after the beans that lock with it: their last calls need it. */
    private void outliveThem(Object bean, String beanName) {
        ConfigurableListableBeanFactory factory = beans;
        if (factory != null && isLocked(bean)) {
            for (String client : factory.getBeanNamesForType(LeaseholdClient.class, false, false)) {
                factory.registerDependentBean(client, beanName);
            }
        }
    }

    /** Behind what has a smaller order. */
    private int place(Advised advised) {
        Advisor[] around = advised.getAdvisors();
        int place = 0;
        while (place < around.length && orderOf(around[place]) < lockOrder) {
            place++;
        }
        return place;
    }

    private static int orderOf(Advisor advisor) {
        return advisor instanceof Ordered ordered ? ordered.getOrder() : Ordered.LOWEST_PRECEDENCE;
    }

    private void check(Object bean) {
        Class<?> type = AopUtils.getTargetClass(bean);
        LockedInterceptor checker = interceptor;
        if (checker == null || locked.containsKey(type)) {
            return;
        }
        Set<Method> found = lockedMethodsOf(type);
        found.forEach(method -> checker.method(method, type));
        if (!found.isEmpty() && Modifier.isFinal(type.getModifiers()) && !ClassUtils.isLambdaClass(type)
                && !java.lang.reflect.Proxy.isProxyClass(type)) {
            throw new LockedRefusedException(
                    found.iterator().next().toString(),
                    "its class is final, so that no proxy can take the lock; make it an ordinary class");
        }
    }

    private Set<Method> lockedMethodsOf(Class<?> type) {
        return locked.computeIfAbsent(type, LockedBeanPostProcessor::lockedMethods);
    }

    /**
     * Whether a class has methods that want a lock.
     *
     * @param type the class of a bean
     * @return whether any has {@link Locked}, its own or of what it overrides
     */
    public static boolean isLocked(Class<?> type) {
        return !lockedMethods(type).isEmpty();
    }

    private boolean isLocked(Object bean) {
        return !lockedMethodsOf(AopUtils.getTargetClass(bean)).isEmpty() || !lockedMethodsOf(bean.getClass()).isEmpty();
    }

    /** Tells of beans that were made before there was anybody to put the lock around them. */
    @Override
    public void afterSingletonsInstantiated() {
        ConfigurableListableBeanFactory factory = beans;
        Advisor lock = advisor;
        if (factory == null || lock == null) {
            return;
        }
        for (String name : factory.getBeanDefinitionNames()) {
            Object bean = factory.getSingleton(name);
            if (bean != null && isLocked(bean) && !(bean instanceof Advised advised && advised.indexOf(lock) >= 0)) {
                LOGGER.log(
                        System.Logger.Level.WARNING,
                        "the bean {0} ({1}) has methods with @Locked, but nothing takes the lock: it was made too early, by what"
                                + " processes other beans, or it is a mock",
                        name,
                        bean.getClass().getName());
            }
        }
    }
}

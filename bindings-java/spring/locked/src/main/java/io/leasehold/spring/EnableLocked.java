package io.leasehold.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Import;
import org.springframework.core.Ordered;

/** Carries out {@link Locked} in an application without the starter, which does so by itself. It needs a client among the beans. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Documented
@Import(LockedRegistrar.class)
public @interface EnableLocked {
    /**
     * Where the lock stands among what else is around a method (transactions, security, caches, retries). What has a smaller order
     * is outside of it.
     *
     * @return outside of everything by default, but {@code @Async}
     */
    int order() default Ordered.HIGHEST_PRECEDENCE;

    /**
     * What to do where a transaction has begun before the lock.
     *
     * @return by default, to keep the lock until that has ended
     */
    OuterTransaction outerTransaction() default OuterTransaction.HOLD;

    /**
     * Whether a proxy is a subclass of the bean's class, or has its interfaces only.
     *
     * @return a subclass by default
     */
    boolean proxyTargetClass() default true;
}

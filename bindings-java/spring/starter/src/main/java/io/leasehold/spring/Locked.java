package io.leasehold.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The method runs while its caller holds a lock, and never without it.
 *
 * <p>The lock is taken before anything else around the method and released after everything else: with {@code @Transactional} on
 * the same method, after the commit. A thread that holds the lock already (through another {@code @Locked} method or {@link
 * io.leasehold.LeaseholdLock#lock()}) enters at once and releases it at the outermost end.
 *
 * <p>If the lock was lost while the method ran, the caller gets a {@link io.leasehold.LockLostException}, unless the method itself
 * threw. What was committed by then stays committed: where that would be wrong, send {@link CurrentLock#token()} along with
 * each write and let the receiver refuse a smaller one than it has seen.
 *
 * <p>As with all annotations of this kind, calls within the same object do not pass through the lock, and the bean must come from
 * Spring. What could not be locked (private, final and static methods, ones that return before their work is done) is refused
 * when the application starts.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@Documented
public @interface Locked {
    /**
     * The name of the lock: text with expressions in it, such as {@code order:#{#id}}.
     *
     * <p>Expressions are SpEL and see the parameters by name ({@code #id}, which needs {@code -parameters}) or by position
     * ({@code #p0}), and the bean as {@code #root.target}. An expression that gives null is refused: it would lock something
     * else than was meant. Placeholders such as {@code ${app.name}} are filled in before.
     *
     * @return the name
     */
    String name();

    /**
     * How long to wait for the lock: {@code 5s}, {@code 500ms}, or {@code 0s} not to wait at all; placeholders are filled in.
     *
     * <p>An interrupt ends the wait, with {@link InterruptedException} if the method declares it and with {@link
     * java.util.concurrent.CancellationException} otherwise.
     *
     * @return the time; empty, the default, waits as long as it takes
     */
    String waitFor() default "";

    /**
     * What to do when the lock is not to be had within {@link #waitFor()}.
     *
     * @return fail by default
     */
    OnBusy onBusy() default OnBusy.FAIL;

    /** What to do when somebody else holds the lock. */
    enum OnBusy {
        /** Throw {@link io.leasehold.NotAcquiredException}. */
        FAIL,
        /**
         * Do not run the method; the caller gets null, or an empty {@link java.util.Optional}. A method that returns a primitive
         * cannot say so, and is refused when the application starts.
         */
        SKIP
    }
}

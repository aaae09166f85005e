package io.leasehold.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.aot.hint.annotation.Reflective;

/**
 * The method runs while its caller holds a lock, and never without it. Needs {@link EnableLocked}, or the starter for Spring Boot.
 *
 * <p>The lock is taken before anything else around the method and released after everything else ({@link EnableLocked#order}
 * changes that): with {@code @Transactional} on the same method, after the commit. If the caller has a transaction already, the
 * lock is kept until that has ended ({@link OuterTransaction}). A thread that holds the lock already (through another {@code
 * @Locked} method or {@link io.leasehold.LeaseholdLock#lock()}) enters at once and releases it at the outermost end.
 *
 * <p>What the method returns decides how long the lock is held:
 *
 * <ul>
 *   <li>A value: until the method returns.
 *   <li>A {@code CompletionStage} or {@code CompletableFuture}: until it is done. The caller waits for the lock, not for that.
 *   <li>A reactive type ({@code Mono}, {@code Flux}, those of RxJava and Mutiny, {@code Flow}; needs Reactor on the class path):
 *       each subscription takes the lock without blocking, then runs the method, and holds the lock until it ends or is
 *       cancelled. Inside, the guard is in Reactor's context under {@code Guard.class}; a chain enters its own lock again.
 * </ul>
 *
 * <p>If the lock was lost while the method ran, the caller gets a {@link io.leasehold.LockLostException}, unless the method itself
 * threw. What was committed by then stays committed: where that would be wrong, send {@link CurrentLock#token()} along with
 * each write and let the receiver refuse a smaller one than it has seen.
 *
 * <p>As with all annotations of this kind, calls within the same object do not pass through the lock, and the bean must come from
 * Spring. What could not be locked (private, final and static methods, suspending functions, ones that hand out work to be done
 * later, such as a {@code Callable}, a {@code DeferredResult} or a {@code Stream}) is refused when the application starts.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@Documented
@Reflective(LockedHints.class)
public @interface Locked {
    /**
     * The name of the lock: text with expressions in it, such as {@code order:#{#id}}.
     *
     * <p>Expressions are SpEL and see the parameters by name ({@code #id}, which needs {@code -parameters}) or by position
     * ({@code #p0}), the bean as {@code #root.target}, and other beans as {@code @name}. An expression that gives null is refused:
     * it would lock something else than was meant. Placeholders such as {@code ${app.name}} are filled in before.
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

    /**
     * How long the lock stays taken after a crash, instead of the client's TTL: {@code 10s}; placeholders are filled in.
     *
     * @return the time, at least 2 s, in whole seconds, rounded up; empty, the default, is the client's
     */
    String ttl() default "";

    /**
     * How long the lock is held at most: it is renewed until then and free then, even while the method still runs, which then
     * ends with {@link io.leasehold.LockLostException}. After a crash it is free after the {@link #ttl}, as without.
     *
     * @return the time; empty, the default, is no limit
     */
    String maxHold() default "";

    /**
     * What to call instead of the method when the lock is not to be had within {@link #waitFor()}: the name of another method of
     * the bean, of any visibility, with the same parameters and type. It can have one more parameter at the end, the {@link
     * io.leasehold.NotAcquiredException}; with a {@link io.leasehold.LeaseholdException} there it is called, too, when etcd does not
     * answer ({@link io.leasehold.UnavailableException}, {@link io.leasehold.DeadlineExceededException}). It runs without the lock.
     *
     * @return the name; empty, the default, is none. Not together with {@link OnBusy#SKIP}.
     */
    String fallback() default "";

    /**
     * Which client, where there are several.
     *
     * @return the name or qualifier of a {@link io.leasehold.LeaseholdClient} bean; empty, the default, is the primary one
     */
    String client() default "";

    /** What to do when somebody else holds the lock. */
    enum OnBusy {
        /** Throw {@link io.leasehold.NotAcquiredException}. */
        FAIL,
        /**
         * Do not run the method; the caller gets null, an empty {@link java.util.Optional}, a future of that, or an empty
         * publisher. A method that returns a primitive cannot say so, and is refused when the application starts.
         */
        SKIP
    }
}

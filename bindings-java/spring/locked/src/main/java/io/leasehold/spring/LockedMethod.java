package io.leasehold.spring;

import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdLock;
import io.leasehold.NotAcquiredException;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.expression.EvaluationException;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.format.annotation.DurationFormat;
import org.springframework.format.datetime.standard.DurationFormatterUtils;
import org.springframework.scheduling.annotation.Async;
import org.springframework.util.ClassUtils;

/** A method with {@link Locked}, checked and read once. */
final class LockedMethod {
    /** What an expression sees as {@code #root}. */
    record Root(Object target, Method method, @Nullable Object[] args) {}

    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final ParameterNameDiscoverer PARAMETER_NAMES = new DefaultParameterNameDiscoverer();
    /** What somebody writes who means the value: {@code #id}, {@code #{#id}} without its braces. */
    private static final Pattern BARE_EXPRESSION = Pattern.compile("#[A-Za-z_][\\w.]*");

    private final Method method;
    private final ConfigurableBeanFactory beans;
    /** The name in its pieces: text, and what is evaluated for each call. */
    private final List<Expression> pieces = new ArrayList<>();

    private final @Nullable Duration ttl;
    private final @Nullable Duration maxHold;

    /** What it returns, as far as that is known when the application starts. */
    final Class<?> returns;
    /** When its work is done. */
    final Deferral deferral;
    /** Whether what it returns may turn out to defer something. */
    final boolean isOpen;
    /** How long to wait; null is as long as it takes. */
    final @Nullable Duration limit;
    /** Which client's; empty for the primary one's. */
    final String client;

    /** What is called instead, where the lock is not to be had. */
    final @Nullable Fallback fallback;

    final boolean skips;
    final boolean declaresInterrupts;

    /**
     * Reads the annotation of a method that has one.
     *
     * @throws LockedRefusedException if it cannot be carried out; the message says why
     */
    LockedMethod(Method method, Class<?> type, ConfigurableBeanFactory beans) {
        this.method = method;
        this.beans = beans;
        Locked locked = Objects.requireNonNull(find(method), "@Locked");
        String text = resolve(locked.name());
        this.declaresInterrupts = Stream.of(method.getExceptionTypes())
                .anyMatch(each -> each.isAssignableFrom(InterruptedException.class));
        this.skips = locked.onBusy() == Locked.OnBusy.SKIP;
        this.limit = duration("waitFor", locked.waitFor());
        this.ttl = duration("ttl", locked.ttl());
        this.maxHold = duration("maxHold", locked.maxHold());
        this.client = resolve(locked.client());
        ResolvableType returned = ResolvableType.forMethodReturnType(method, type);
        this.returns = returned.toClass();
        // With @Async, the method runs elsewhere, whole, with the lock around it there; what it returns there is waited for.
        boolean isAsync = isAsync(method) || isAsync(type);
        this.deferral = isAsync && returns == Future.class ? Deferral.NONE : Deferral.of(returns);
        this.isOpen = Deferral.isOpen(returns);
        checkShape(returned);
        this.fallback = fallback(locked, type);
        if (BARE_EXPRESSION.matcher(text).matches()) {
            throw refused("the name \"" + text + "\" is the same text for every call; write #{" + text + "} for its value");
        }
        try {
            Expression whole = PARSER.parseExpression(text, new TemplateParserContext());
            pieces.addAll(
                    whole instanceof CompositeStringExpression composite ? List.of(composite.getExpressions()) : List.of(whole));
        } catch (ParseException error) {
            throw refused("the name \"" + text + "\" cannot be parsed: " + error.getMessage());
        }
        if (text.isEmpty()) {
            throw refused("the name is empty");
        }
    }

    /** The annotation of a method, its own or of what it overrides. */
    static @Nullable Locked find(Method method) {
        return AnnotatedElementUtils.findMergedAnnotation(method, Locked.class);
    }

    /** The lock for this call. */
    LeaseholdLock lock(LeaseholdClient client, Object target, @Nullable Object[] arguments) {
        LeaseholdLock lock = client.lock(name(target, arguments));
        lock = ttl == null ? lock : lock.withTtl(ttl);
        return maxHold == null ? lock : lock.withMaxHold(maxHold);
    }

    private String name(Object target, @Nullable Object[] arguments) {
        MethodBasedEvaluationContext context = new MethodBasedEvaluationContext(
                new Root(target, method, arguments), method, arguments, PARAMETER_NAMES);
        context.setBeanResolver(new BeanFactoryResolver(beans));
        StringBuilder name = new StringBuilder();
        for (Expression piece : pieces) {
            try {
                String value = piece.getValue(context, String.class);
                if (value == null) {
                    throw new IllegalArgumentException(
                            "the name of the lock of " + method + ": " + piece.getExpressionString() + " is null");
                }
                name.append(value);
            } catch (EvaluationException error) {
                throw new IllegalArgumentException(
                        "the name of the lock of " + method + ": \"" + piece.getExpressionString()
                                + "\" cannot be evaluated: " + error.getMessage(),
                        error);
            }
        }
        return name.toString();
    }

    /** What the caller of a method gets that was skipped. */
    @Nullable Object skipped() {
        if (deferral == Deferral.STAGE) {
            ResolvableType value = ResolvableType.forMethodReturnType(method).as(java.util.concurrent.CompletionStage.class)
                    .getGeneric();
            return CompletableFuture.completedFuture(value.toClass() == Optional.class ? Optional.empty() : null);
        }
        return returns == Optional.class ? Optional.empty() : null;
    }

    /** That the lock was not to be had. */
    NotAcquiredException busy(LeaseholdLock lock) {
        return new NotAcquiredException("the lock \"" + lock.name() + "\" of " + method.getDeclaringClass().getSimpleName() + "."
                + method.getName() + " was not to be had within " + limit);
    }

    private void checkShape(ResolvableType returned) {
        int modifiers = method.getModifiers();
        if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers)
                || (Modifier.isFinal(modifiers) && !Proxy.isProxyClass(method.getDeclaringClass()))) {
            throw refused("it is private, static or final, so that calls cannot be intercepted; make it an ordinary method");
        }
        if (skips && returns.isPrimitive() && returns != void.class) {
            throw refused("it returns " + returns + ", and onBusy = SKIP has nothing to return then; return "
                    + ClassUtils.resolvePrimitiveIfNecessary(returns).getSimpleName() + " or an Optional, or use onBusy = FAIL");
        }
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length > 0
                && parameters[parameters.length - 1].getName().equals("kotlin.coroutines.Continuation")) {
            throw refused("it is a suspending function, which goes on after it has returned; return a Mono or a Flow, or take a guard"
                    + " with LeaseholdLock.acquireAsync()");
        }
        if (deferral == Deferral.UNKNOWN) {
            throw refused("it returns a " + returns.getSimpleName() + ", whose work ends after the method and so after the lock; return"
                    + " the value itself, a CompletionStage or a Mono (with Reactor on the class path), or take a guard with"
                    + " LeaseholdLock.acquireAsync()");
        }
        Deferral.inside(returned).ifPresent(each -> {
            throw refused("it returns a " + returned + ", and the work of the " + each.getSimpleName() + " in it ends after the method"
                    + " and so after the lock; return the value itself, or take a guard with LeaseholdLock.acquireAsync()");
        });
    }

    private static boolean isAsync(AnnotatedElement element) {
        return AnnotatedElementUtils.hasAnnotation(element, Async.class);
    }

    private @Nullable Duration duration(String attribute, String text) {
        String resolved = resolve(text);
        if (resolved.isBlank()) {
            return null;
        }
        try {
            Duration span = DurationFormatterUtils.detectAndParse(resolved.trim(), DurationFormat.Unit.MILLIS);
            if (span.isNegative()) {
                throw new IllegalArgumentException("it is negative");
            }
            if (attribute.equals("ttl") && span.compareTo(Duration.ofSeconds(2)) < 0) {
                throw new IllegalArgumentException("it is shorter than 2 s");
            }
            if (attribute.equals("maxHold") && span.isZero()) {
                throw new IllegalArgumentException("it is nothing");
            }
            return span;
        } catch (IllegalArgumentException error) {
            throw refused(attribute + " = \"" + resolved + "\" is no duration such as 5s or 500ms: " + error.getMessage());
        }
    }

    private String resolve(String text) {
        String resolved = beans.resolveEmbeddedValue(text);
        return resolved == null ? "" : resolved;
    }

    private @Nullable Fallback fallback(Locked locked, Class<?> type) {
        String name = resolve(locked.fallback());
        if (name.isEmpty()) {
            return null;
        }
        if (skips) {
            throw refused("it has both a fallback and onBusy = SKIP; give one of them");
        }
        Fallback found;
        try {
            found = Fallback.of(method, type, name);
        } catch (IllegalArgumentException error) {
            throw refused(String.valueOf(error.getMessage()));
        }
        if (limit == null && !found.isForErrors()) {
            throw refused("it waits for the lock as long as it takes, so that its fallback would never be called; give a waitFor, or the"
                    + " fallback a LeaseholdException as its last parameter, to be called when etcd does not answer");
        }
        return found;
    }

    LockedRefusedException refused(String why) {
        return new LockedRefusedException(method.toString(), why);
    }

    @Override
    public String toString() {
        return "@Locked on " + method;
    }
}

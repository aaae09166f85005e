package io.leasehold.spring;

import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
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
import org.springframework.util.StringValueResolver;

/** A method with {@link Locked}, checked and read once. */
final class LockedMethod {
    /** What an expression sees as {@code #root}. */
    record Root(Object target, Method method, @Nullable Object[] args) {}

    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final ParameterNameDiscoverer PARAMETER_NAMES = new DefaultParameterNameDiscoverer();

    private final Method method;
    /** The name in its pieces: text, and what is evaluated for each call. */
    private final List<Expression> pieces = new ArrayList<>();

    /** How long to wait; null is as long as it takes. */
    final @Nullable Duration limit;

    final boolean skips;
    final boolean declaresInterrupts;

    /**
     * Reads the annotation of a method that has one.
     *
     * @throws IllegalStateException if it cannot be carried out; the message says why
     */
    LockedMethod(Method method, StringValueResolver placeholders) {
        this.method = method;
        Locked locked = Objects.requireNonNull(find(method), "@Locked");
        String text = resolve(locked.name(), placeholders);
        this.declaresInterrupts = Stream.of(method.getExceptionTypes())
                .anyMatch(type -> type.isAssignableFrom(InterruptedException.class));
        this.skips = locked.onBusy() == Locked.OnBusy.SKIP;
        this.limit = duration(resolve(locked.waitFor(), placeholders));
        checkShape();
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

    /** The name of the lock for this call. */
    String name(Object target, @Nullable Object[] arguments) {
        MethodBasedEvaluationContext context = new MethodBasedEvaluationContext(
                new Root(target, method, arguments), method, arguments, PARAMETER_NAMES);
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
        return method.getReturnType() == Optional.class ? Optional.empty() : null;
    }

    private void checkShape() {
        Class<?> type = method.getReturnType();
        int modifiers = method.getModifiers();
        if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers) || Modifier.isFinal(modifiers)) {
            throw refused("it is private, static or final, so that calls cannot be intercepted; make it an ordinary method");
        }
        if (skips && type.isPrimitive() && type != void.class) {
            throw refused("it returns " + type + ", and onBusy = SKIP has nothing to return then; return "
                    + ClassUtils.resolvePrimitiveIfNecessary(type).getSimpleName() + " or an Optional, or use onBusy = FAIL");
        }
        if (returnsBeforeItsWorkIsDone(type)) {
            throw refused("it returns a " + type.getSimpleName() + ", which ends after the method and so after the lock; return"
                    + " the value itself, or take a guard with LeaseholdLock.acquireAsync()");
        }
    }

    private boolean returnsBeforeItsWorkIsDone(Class<?> type) {
        if (isAsync()) {
            // Then the method runs elsewhere, whole, with the lock around it there.
            return false;
        }
        return Future.class.isAssignableFrom(type)
                || CompletionStage.class.isAssignableFrom(type)
                || Flow.Publisher.class.isAssignableFrom(type)
                || ClassUtils.getAllInterfacesForClassAsSet(type).stream()
                        .anyMatch(each -> each.getName().equals("org.reactivestreams.Publisher"));
    }

    private boolean isAsync() {
        return isAsync(method) || isAsync(method.getDeclaringClass());
    }

    private static boolean isAsync(AnnotatedElement element) {
        return AnnotatedElementUtils.hasAnnotation(element, Async.class);
    }

    private @Nullable Duration duration(String text) {
        if (text.isBlank()) {
            return null;
        }
        try {
            Duration wait = DurationFormatterUtils.detectAndParse(text.trim(), DurationFormat.Unit.MILLIS);
            if (wait.isNegative()) {
                throw new IllegalArgumentException("it is negative");
            }
            return wait;
        } catch (IllegalArgumentException error) {
            throw refused("waitFor = \"" + text + "\" is no duration such as 5s or 500ms: " + error.getMessage());
        }
    }

    private static String resolve(String text, StringValueResolver placeholders) {
        String resolved = placeholders.resolveStringValue(text);
        return resolved == null ? "" : resolved;
    }

    private IllegalStateException refused(String why) {
        return new IllegalStateException("@Locked on " + method + ": " + why);
    }
}

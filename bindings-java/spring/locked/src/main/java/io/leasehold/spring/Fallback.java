package io.leasehold.spring;

import io.leasehold.DeadlineExceededException;
import io.leasehold.LeaseholdException;
import io.leasehold.NotAcquiredException;
import io.leasehold.UnavailableException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.core.BridgeMethodResolver;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * What is called in place of a method whose lock is not to be had: a method of the same bean with the same parameters, and perhaps
 * why, as one more.
 */
final class Fallback {
    private final Method method;
    /** What it wants to be told, and so what it is for. */
    private final Class<?> reason;

    private final boolean isTold;

    private Fallback(Method method, int parameters) {
        this.method = method;
        isTold = method.getParameterCount() > parameters;
        reason = isTold ? method.getParameterTypes()[parameters] : NotAcquiredException.class;
        ReflectionUtils.makeAccessible(method);
    }

    /**
     * Finds it.
     *
     * @throws IllegalArgumentException if there is none, or several; the message says what it would look like
     */
    static Fallback of(Method locked, Class<?> type, String name) {
        List<Method> candidates = candidates(locked, type, name).toList();
        if (candidates.size() != 1) {
            throw new IllegalArgumentException("fallback = \"" + name + "\": " + type.getName() + " has "
                    + (candidates.isEmpty() ? "no such method" : "several such methods")
                    + "; it has the same parameters, perhaps with a NotAcquiredException or LeaseholdException behind them, is not"
                    + " static, and returns what the method returns");
        }
        return new Fallback(candidates.get(0), locked.getParameterCount());
    }

    /** Those of the name that fit; also for hints, which cannot tell yet which one it is. */
    static Stream<Method> candidates(Method locked, Class<?> type, String name) {
        Set<Class<?>> places = new LinkedHashSet<>(List.of(type, locked.getDeclaringClass()));
        places.addAll(ClassUtils.getAllInterfacesForClassAsSet(type));
        Set<String> seen = new LinkedHashSet<>();
        return places.stream()
                .flatMap(place -> Arrays.stream(ReflectionUtils.getAllDeclaredMethods(place)))
                .filter(method -> method.getName().equals(name) && fits(method, locked))
                // What is overridden comes after what overrides it.
                .filter(method -> seen.add(Arrays.toString(method.getParameterTypes())));
    }

    private static boolean fits(Method method, Method locked) {
        Class<?>[] wanted = locked.getParameterTypes();
        Class<?>[] parameters = method.getParameterTypes();
        boolean isTold = parameters.length == wanted.length + 1
                && LeaseholdException.class.isAssignableFrom(parameters[wanted.length])
                && parameters[wanted.length].isAssignableFrom(NotAcquiredException.class);
        return !Modifier.isStatic(method.getModifiers())
                && !Modifier.isAbstract(method.getModifiers())
                && !method.isBridge()
                && (isTold || parameters.length == wanted.length)
                && Arrays.equals(wanted, Arrays.copyOf(parameters, wanted.length))
                && ClassUtils.isAssignable(BridgeMethodResolver.findBridgedMethod(locked).getReturnType(), method.getReturnType());
    }

    /** Whether it can be called for a lock that is waited for without limit. */
    boolean isForErrors() {
        return reason == LeaseholdException.class;
    }

    /** Whether it is for this: that somebody else has the lock, or, if it wants to hear of that, that etcd does not answer. */
    boolean isFor(Throwable failure) {
        return reason.isInstance(failure)
                && (failure instanceof NotAcquiredException
                        || failure instanceof UnavailableException
                        || failure instanceof DeadlineExceededException);
    }

    @Nullable Object call(Object target, @Nullable Object[] arguments, Throwable why) throws Throwable {
        @Nullable Object[] all = arguments;
        if (isTold) {
            all = Arrays.copyOf(arguments, arguments.length + 1);
            all[arguments.length] = why;
        }
        try {
            return method.invoke(target, all);
        } catch (InvocationTargetException thrown) {
            throw thrown.getTargetException();
        }
    }
}

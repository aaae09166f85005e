package io.leasehold.spring;

import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.ExecutableMode;
import org.springframework.aot.hint.ReflectionHints;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.aot.hint.annotation.ReflectiveProcessor;

/**
 * What a native image is told of {@link Locked}: the methods that have it, those that are called instead, and what expressions see.
 */
public final class LockedHints implements ReflectiveProcessor, RuntimeHintsRegistrar {
    /** Made by Spring. */
    public LockedHints() {}

    @Override
    public void registerReflectionHints(ReflectionHints hints, AnnotatedElement element) {
        if (!(element instanceof Method method)) {
            return;
        }
        hints.registerMethod(method, ExecutableMode.INVOKE);
        Locked locked = LockedMethod.find(method);
        if (locked != null && !locked.fallback().isEmpty()) {
            Fallback.candidates(method, method.getDeclaringClass(), locked.fallback())
                    .forEach(each -> hints.registerMethod(each, ExecutableMode.INVOKE));
        }
    }

    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
        for (RecordComponent each : LockedMethod.Root.class.getRecordComponents()) {
            hints.reflection().registerMethod(each.getAccessor(), ExecutableMode.INVOKE);
        }
    }
}

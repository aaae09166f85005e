package io.leasehold.spring.boot;

import io.leasehold.Contender;
import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.BindingReflectionHintsRegistrar;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;

/** What a native image is told of the starter: what the Actuator endpoint writes as JSON. */
final class LeaseholdHints implements RuntimeHintsRegistrar {
    @Override
    public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
        new BindingReflectionHintsRegistrar()
                .registerReflectionHints(hints.reflection(), LocksEndpoint.Held.class, LocksEndpoint.Queue.class, Contender.class);
    }
}

package io.leasehold.spring;

import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/** When the work of a method is done that returns something of a type: at its return, or later. */
enum Deferral {
    /** When it returns. */
    NONE,
    /** When the stage is done that it returns. */
    STAGE,
    /** When the subscription ends to what it returns. */
    PUBLISHER,
    /** Later, and nobody tells when. */
    UNKNOWN;

    /** Publishers in the wide sense, by name: none of them need be there. */
    private static final Set<String> PUBLISHERS = Set.of(
            "java.util.concurrent.Flow$Publisher",
            "org.reactivestreams.Publisher",
            "io.reactivex.rxjava3.core.SingleSource",
            "io.reactivex.rxjava3.core.MaybeSource",
            "io.reactivex.rxjava3.core.CompletableSource",
            "io.reactivex.rxjava3.core.ObservableSource",
            "io.reactivex.SingleSource",
            "io.reactivex.MaybeSource",
            "io.reactivex.CompletableSource",
            "io.reactivex.ObservableSource",
            "io.smallrye.mutiny.Uni",
            "kotlinx.coroutines.flow.Flow");

    /** What hands out work to be done later, in whatever it is wrapped. */
    private static final Set<String> LATER = Set.of(
            "java.util.concurrent.Future",
            "java.util.stream.BaseStream",
            "kotlinx.coroutines.Job",
            "kotlin.sequences.Sequence",
            "io.vertx.core.Future",
            "org.springframework.web.context.request.async.DeferredResult",
            "org.springframework.web.context.request.async.WebAsyncTask",
            "org.springframework.web.servlet.mvc.method.annotation.ResponseBodyEmitter",
            "org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody");

    /** The same, as long as it is not an element of something: a list of suppliers may be just that. */
    private static final Set<String> WORK =
            Set.of("java.util.concurrent.Callable", "java.util.function.Supplier", "java.util.Iterator", "kotlin.Function");

    private static final boolean HAS_REACTOR =
            ClassUtils.isPresent("reactor.core.publisher.Flux", Deferral.class.getClassLoader());

    /** Of what a method returns, or has returned. */
    static Deferral of(Class<?> type) {
        if (CompletionStage.class.isAssignableFrom(type)) {
            return type.isAssignableFrom(CompletableFuture.class) ? STAGE : UNKNOWN;
        }
        if (isAny(PUBLISHERS, type)) {
            return HAS_REACTOR && adapter(type).isPresent() ? PUBLISHER : UNKNOWN;
        }
        return isAny(LATER, type) || isAny(WORK, type) ? UNKNOWN : NONE;
    }

    /** The first type in the arguments of a type that defers something, such as in {@code ResponseEntity<Mono<Order>>}. */
    static Optional<Class<?>> inside(ResolvableType type) {
        for (ResolvableType argument : type.getGenerics()) {
            Class<?> each = argument.toClass();
            if (CompletionStage.class.isAssignableFrom(each) || isAny(PUBLISHERS, each) || isAny(LATER, each)) {
                return Optional.of(each);
            }
            Optional<Class<?>> deeper = inside(argument);
            if (deeper.isPresent()) {
                return deeper;
            }
        }
        return Optional.empty();
    }

    /** Whether an object of this declared type may turn out to be one that defers something. */
    static boolean isOpen(Class<?> type) {
        return type == Object.class || type == java.util.concurrent.Future.class
                || (type.isInterface() && !type.getName().startsWith("java.util."));
    }

    /** What makes one kind of publisher of another. Deferred ones only: others have begun before there is a lock. */
    static Optional<ReactiveAdapter> adapter(Class<?> type) {
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(type);
        return Optional.ofNullable(adapter).filter(each -> each.getDescriptor().isDeferred());
    }

    private static boolean isAny(Set<String> names, Class<?> type) {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (names.contains(each.getName())) {
                return true;
            }
            for (Class<?> parent : ClassUtils.getAllInterfacesForClassAsSet(each)) {
                if (isAnyInterface(names, parent)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean isAnyInterface(Set<String> names, Class<?> type) {
        if (names.contains(type.getName())) {
            return true;
        }
        for (Class<?> parent : type.getInterfaces()) {
            if (isAnyInterface(names, parent)) {
                return true;
            }
        }
        return false;
    }
}

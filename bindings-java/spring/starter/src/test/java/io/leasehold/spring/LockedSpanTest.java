package io.leasehold.spring;

import static io.leasehold.spring.Locked.OnBusy.SKIP;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.Guard;
import io.leasehold.LockLostException;
import io.leasehold.NotAcquiredException;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import io.reactivex.rxjava3.core.Completable;
import io.reactivex.rxjava3.core.Flowable;
import io.reactivex.rxjava3.core.Single;
import io.smallrye.mutiny.Multi;
import io.smallrye.mutiny.Uni;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kotlin.coroutines.Continuation;
import kotlin.sequences.Sequence;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.http.ResponseEntity;
import org.springframework.scheduling.annotation.Async;
import org.springframework.web.context.request.async.DeferredResult;
import org.springframework.web.context.request.async.WebAsyncTask;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** How long {@code @Locked} holds for what a method returns: never shorter than its work takes. */
class LockedSpanTest {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    /** Methods whose work ends after they have returned. */
    static class Deferred {
        /** What ends the work. */
        static CompletableFuture<String> work = new CompletableFuture<>();

        static final AtomicInteger bodies = new AtomicInteger();

        @Locked(name = "stage")
        public CompletionStage<String> stage() {
            return work;
        }

        @Locked(name = "stage")
        public CompletableFuture<String> future() {
            assertThat(isFree("stage")).isFalse();
            return work;
        }

        /** Without anything that would carry out its annotation. */
        @Async
        @Locked(name = "stage")
        public CompletableFuture<String> asynchronous() {
            return work;
        }

        @Locked(name = "stage")
        public Object undeclared() {
            return work;
        }

        @Locked(name = "stage")
        public CompletableFuture<String> failing() {
            throw new IllegalArgumentException("no money");
        }

        @Locked(name = "stage")
        public String outer(Supplier<CompletableFuture<String>> inner) {
            return inner.get().join();
        }

        @Locked(name = "stage", waitFor = "0s", onBusy = SKIP)
        public CompletableFuture<Optional<String>> skipping() {
            return CompletableFuture.completedFuture(Optional.of("ran"));
        }

        @Locked(name = "mono:#{#id}")
        public Mono<String> mono(int id) {
            assertThat(isFree("mono:" + id)).isFalse();
            assertThat(CurrentLock.token()).isPositive();
            return Mono.deferContextual(context -> {
                assertThat(context.get(Guard.class).held()).isTrue();
                assertThat(isFree("mono:" + id)).isFalse();
                // From now on the test may take the lock away.
                bodies.incrementAndGet();
                return Mono.fromFuture(work, true);
            });
        }

        @Locked(name = "flux")
        public Flux<Integer> flux() {
            return Flux.interval(Duration.ofMillis(1)).map(Long::intValue).doOnNext(each -> assertThat(isFree("flux")).isFalse());
        }

        @Locked(name = "flux", waitFor = "0s")
        public Mono<String> busy() {
            return Mono.just("ran");
        }

        @Locked(name = "flux", waitFor = "0s", onBusy = SKIP)
        public Mono<String> skips() {
            return Mono.just("ran");
        }

        @Locked(name = "rx")
        public Single<String> single() {
            return Single.fromCallable(() -> {
                assertThat(isFree("rx")).isFalse();
                return "single";
            });
        }

        @Locked(name = "rx")
        public Completable completable() {
            return Completable.fromAction(() -> assertThat(isFree("rx")).isFalse());
        }

        @Locked(name = "rx")
        public Flowable<Integer> flowable() {
            return Flowable.range(0, 5).doOnNext(each -> assertThat(isFree("rx")).isFalse());
        }

        @Locked(name = "rx")
        public Uni<String> uni() {
            return Uni.createFrom().item(() -> {
                assertThat(isFree("rx")).isFalse();
                return "uni";
            });
        }

        @Locked(name = "rx")
        public Multi<Integer> multi() {
            return Multi.createFrom().items(1, 2, 3).onItem().invoke(() -> assertThat(isFree("rx")).isFalse());
        }

        @Locked(name = "#{#root.target.toString()}")
        public Mono<String> named() {
            return Mono.just("ran");
        }

        @Override
        public String toString() {
            return "target";
        }
    }

    private static boolean isFree(String name) {
        return !leasehold.client().lock(name).isLocked();
    }

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .withPropertyValues("leasehold.endpoints=" + leasehold.url());
    }

    private static void with(Consumer<Deferred> test) {
        Deferred.work = new CompletableFuture<>();
        Deferred.bodies.set(0);
        application().withBean(Deferred.class).run(context -> test.accept(context.getBean(Deferred.class)));
    }

    private static void until(String what, java.util.function.BooleanSupplier condition) {
        try {
            LeaseholdExtension.await(what, condition);
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }

    // --- stages ---

    private static void spans(Supplier<CompletionStage<String>> call) {
        Deferred.work = new CompletableFuture<>();
        CompletableFuture<String> result = call.get().toCompletableFuture();
        assertThat(isFree("stage")).isFalse();
        assertThat(result).isNotDone();
        Deferred.work.complete("done");
        assertThat(result.orTimeout(10, TimeUnit.SECONDS).join()).isEqualTo("done");
        // Before its result was told.
        assertThat(isFree("stage")).isTrue();
    }

    @Test
    void aStageHoldsTheLockUntilItIsDone() {
        with(deferred -> {
            spans(deferred::stage);
            spans(deferred::future);
            spans(deferred::asynchronous);
        });
    }

    @Test
    void aStageThatFailsOrIsCancelledOrLosesReleases() {
        with(deferred -> {
            CompletableFuture<String> failing = deferred.future();
            Deferred.work.completeExceptionally(new IllegalArgumentException("no money"));
            assertThatThrownBy(failing::join).hasCauseInstanceOf(IllegalArgumentException.class);
            assertThat(isFree("stage")).isTrue();

            Deferred.work = new CompletableFuture<>();
            deferred.future().cancel(true);
            until("the lock is free", () -> isFree("stage"));
            assertThat(Deferred.work).isCancelled();

            Deferred.work = new CompletableFuture<>();
            CompletableFuture<String> losing = deferred.future();
            leasehold.lose("stage");
            Deferred.work.complete("done");
            assertThatThrownBy(() -> losing.get(10, TimeUnit.SECONDS)).hasCauseInstanceOf(LockLostException.class);

            assertThatThrownBy(deferred::failing).hasMessage("no money");
            assertThat(isFree("stage")).isTrue();
        });
    }

    @Test
    void anUndeclaredStageIsWaitedFor() throws Exception {
        with(deferred -> {
            CompletableFuture<Object> result = CompletableFuture.supplyAsync(deferred::undeclared);
            until("the lock is taken", () -> !isFree("stage"));
            assertThat(result).isNotDone();
            Deferred.work.complete("done");
            assertThat(result.orTimeout(10, TimeUnit.SECONDS).join()).isInstanceOf(CompletableFuture.class);
            assertThat(isFree("stage")).isTrue();
        });
    }

    @Test
    void aStageInsideTheLockOfItsThreadEndsBeforeThat() {
        with(deferred -> {
            CompletableFuture<String> result = CompletableFuture.supplyAsync(() -> deferred.outer(deferred::future));
            until("the lock is taken", () -> !isFree("stage"));
            Deferred.work.complete("done");
            assertThat(result.orTimeout(10, TimeUnit.SECONDS).join()).isEqualTo("done");
            assertThat(isFree("stage")).isTrue();
        });
    }

    @Test
    void aStageCanBeSkipped() throws Exception {
        with(deferred -> {
            assertThat(deferred.skipping().join()).contains("ran");
            try (Guard guard = acquire("stage")) {
                assertThat(deferred.skipping().join()).isEmpty();
                assertThat(guard.held()).isTrue();
            }
        });
    }

    private static Guard acquire(String name) {
        return leasehold.newClient().lock(name).acquireAsync().orTimeout(10, TimeUnit.SECONDS).join();
    }

    // --- publishers ---

    @Test
    void eachSubscriptionTakesTheLockAndNoThreadWaits() {
        with(deferred -> {
            Guard guard = acquire("mono:1");
            Mono<String> mono = deferred.mono(1);
            assertThat(Deferred.bodies).hasValue(0);
            CompletableFuture<String> first = mono.toFuture();
            CompletableFuture<String> second = mono.toFuture();
            until("both wait", () -> leasehold.client().lock("mono:1").queue().size() == 3);
            guard.close();
            until("one runs", () -> Deferred.bodies.get() == 1);
            assertThat(second).isNotDone();
            Deferred.work.complete("done");
            assertThat(first.orTimeout(10, TimeUnit.SECONDS).join()).isEqualTo("done");
            assertThat(second.orTimeout(10, TimeUnit.SECONDS).join()).isEqualTo("done");
            assertThat(Deferred.bodies).hasValue(2);
            assertThat(isFree("mono:1")).isTrue();
        });
    }

    @Test
    void aChainEntersItsOwnLockAgain() {
        nested((nested, deferred) -> {
            // Where both are of one chain: the inner one is subscribed to in the outer one's context.
            Nested.inner = () -> deferred.mono(5);
            assertThat(nested.outer().block(PATIENCE)).isEqualTo("done");
        });
    }

    /** Each of Mono and Flux in a Flux, and a Flux in a Mono. */
    @Test
    void aChainOfManyEntersItsOwnLockAgain() {
        nested((nested, deferred) -> {
            Nested.inner = () -> deferred.mono(5);
            assertThat(nested.many().collectList().block(PATIENCE)).containsExactly("done", "done");
            Nested.inner = () -> nested.numbers().last().map(String::valueOf);
            assertThat(nested.outer().block(PATIENCE)).isEqualTo("2");
            assertThat(nested.many().collectList().block(PATIENCE)).containsExactly("2", "2");
        });
    }

    private static void nested(java.util.function.BiConsumer<Nested, Deferred> test) {
        Deferred.work = CompletableFuture.completedFuture("done");
        application().withBean(Nested.class).withBean(Deferred.class).run(context -> {
            test.accept(context.getBean(Nested.class), context.getBean(Deferred.class));
            assertThat(isFree("mono:5")).isTrue();
        });
    }

    /** Calls another method under the same lock. */
    static class Nested {
        static Supplier<Mono<String>> inner = Mono::empty;

        @Locked(name = "mono:5")
        public Mono<String> outer() {
            return Mono.just(1).flatMap(one -> inner.get());
        }

        @Locked(name = "mono:5")
        public Flux<String> many() {
            return Flux.range(0, 2).concatMap(each -> inner.get());
        }

        @Locked(name = "mono:5")
        public Flux<Integer> numbers() {
            return Flux.range(0, 3);
        }
    }

    @Test
    void aSubscriptionThatFailsOrIsCancelledOrLosesReleases() {
        with(deferred -> {
            CompletableFuture<String> failing = deferred.mono(2).toFuture();
            until("it runs", () -> Deferred.bodies.get() == 1);
            Deferred.work.completeExceptionally(new IllegalArgumentException("no money"));
            assertThatThrownBy(() -> failing.get(10, TimeUnit.SECONDS)).hasCauseInstanceOf(IllegalArgumentException.class);
            assertThat(isFree("mono:2")).isTrue();

            assertThat(deferred.flux().take(3).collectList().block(PATIENCE)).containsExactly(0, 1, 2);
            until("the lock is free", () -> isFree("flux"));

            Deferred.work = new CompletableFuture<>();
            CompletableFuture<String> losing = deferred.mono(3).toFuture();
            until("it runs", () -> Deferred.bodies.get() == 2);
            leasehold.lose("mono:3");
            Deferred.work.complete("done");
            assertThatThrownBy(() -> losing.get(10, TimeUnit.SECONDS)).hasCauseInstanceOf(LockLostException.class);
        });
    }

    @Test
    void aBusySubscriptionFailsOrSkips() {
        with(deferred -> {
            try (Guard guard = acquire("flux")) {
                assertThatThrownBy(() -> deferred.busy().block(PATIENCE))
                        .isInstanceOf(NotAcquiredException.class)
                        .hasMessageContaining("Deferred.busy");
                assertThat(deferred.skips().blockOptional(PATIENCE)).isEmpty();
                assertThat(guard.held()).isTrue();
            }
            assertThat(deferred.busy().block(PATIENCE)).isEqualTo("ran");
            assertThat(deferred.skips().block(PATIENCE)).isEqualTo("ran");
        });
    }

    @Test
    void cancellingAtAnyMomentLeavesNothing() {
        with(deferred -> {
            Random random = new Random(7);
            for (int time = 0; time < 300; time++) {
                Disposable subscription = deferred.mono(9).subscribe();
                LockSupport.parkNanos(random.nextInt(1_000_000));
                subscription.dispose();
            }
            until("nothing is left", () -> leasehold.client().lock("mono:9").queue().isEmpty());
        });
    }

    @Test
    void otherReactiveTypesToo() {
        with(deferred -> {
            assertThat(deferred.single().blockingGet()).isEqualTo("single");
            deferred.completable().blockingAwait();
            assertThat(deferred.flowable().toList().blockingGet()).hasSize(5);
            assertThat(deferred.uni().await().atMost(PATIENCE)).isEqualTo("uni");
            assertThat(deferred.multi().collect().asList().await().atMost(PATIENCE)).hasSize(3);
            assertThat(deferred.named().block(PATIENCE)).isEqualTo("ran");
            until("nothing is left", () -> isFree("rx"));
        });
    }

    // --- what is refused by name when the application starts ---

    static class ReturnsCallable {
        @Locked(name = "x")
        public Callable<String> run() {
            return () -> "x";
        }
    }

    static class ReturnsDeferredResult {
        @Locked(name = "x")
        public DeferredResult<String> run() {
            return new DeferredResult<>();
        }
    }

    static class ReturnsWebAsyncTask {
        @Locked(name = "x")
        public WebAsyncTask<String> run() {
            return new WebAsyncTask<>(() -> "x");
        }
    }

    static class ReturnsStream {
        @Locked(name = "x")
        public Stream<String> run() {
            return Stream.of("x");
        }
    }

    static class ReturnsIntStream {
        @Locked(name = "x")
        public IntStream run() {
            return IntStream.of(1);
        }
    }

    static class ReturnsSupplier {
        @Locked(name = "x")
        public Supplier<String> run() {
            return () -> "x";
        }
    }

    static class ReturnsPlainFuture {
        @Locked(name = "x")
        public Future<String> run() {
            return CompletableFuture.completedFuture("x");
        }
    }

    static class ReturnsMonoInside {
        @Locked(name = "x")
        public ResponseEntity<Mono<String>> run() {
            return ResponseEntity.ok(Mono.just("x"));
        }
    }

    static class ReturnsStreamInside {
        @Locked(name = "x")
        public Mono<Optional<Stream<String>>> run() {
            return Mono.empty();
        }
    }

    static class ReturnsSequence {
        @Locked(name = "x")
        public Sequence<String> run() {
            throw new IllegalStateException();
        }
    }

    static class Suspends {
        @Locked(name = "x")
        public Object run(Continuation<? super String> continuation) {
            return "x";
        }
    }

    /** The type is known in the class that fills it in. */
    static class Generic<T> {
        @Locked(name = "x")
        public T run() {
            return null;
        }
    }

    static class FillsIn extends Generic<Callable<String>> {}

    static class BareExpression {
        @Locked(name = "#id")
        public void run(long id) {}
    }

    @Test
    void whatNoLockCanSpanDoesNotStart() {
        refuses(ReturnsCallable.class, "Callable");
        refuses(ReturnsDeferredResult.class, "DeferredResult");
        refuses(ReturnsWebAsyncTask.class, "WebAsyncTask");
        refuses(ReturnsStream.class, "Stream");
        refuses(ReturnsIntStream.class, "IntStream");
        refuses(ReturnsSupplier.class, "Supplier");
        refuses(ReturnsPlainFuture.class, "Future");
        refuses(ReturnsMonoInside.class, "Mono");
        refuses(ReturnsStreamInside.class, "Stream");
        refuses(ReturnsSequence.class, "Sequence");
        refuses(Suspends.class, "suspending");
        refuses(FillsIn.class, "Callable");
        refuses(BareExpression.class, "#{#id}");
    }

    static void refuses(Class<?> type, String why) {
        application()
                .withBean(type)
                .run(context -> assertThat(context)
                        .as("%s", type)
                        .hasFailed()
                        .getFailure()
                        .rootCause()
                        .hasMessageContaining("@Locked on")
                        .hasMessageContaining(why));
    }

    // --- beans that Spring did not make of a class with the annotation ---

    interface Remote {
        @Locked(name = "remote:#{#p0}")
        String call(int id);
    }

    private static Remote proxy() {
        return (Remote) Proxy.newProxyInstance(
                Remote.class.getClassLoader(), new Class<?>[] {Remote.class}, (proxy, method, arguments) -> {
                    if (method.getDeclaringClass() == Object.class) {
                        return method.getName().equals("hashCode") ? (Object) 1 : method.getName().equals("equals");
                    }
                    assertThat(isFree("remote:" + arguments[0])).isFalse();
                    return "called";
                });
    }

    /** As Feign, MyBatis, Spring Data and HTTP interfaces do. */
    static class RemoteFactory implements FactoryBean<Remote> {
        @Override
        public Remote getObject() {
            return proxy();
        }

        @Override
        public Class<?> getObjectType() {
            return Remote.class;
        }
    }

    /** As HTTP interfaces do: a proxy of Spring's without anything behind it. */
    static class AdvisedFactory implements FactoryBean<Remote> {
        @Override
        public Remote getObject() {
            return org.springframework.aop.framework.ProxyFactory.getProxy(
                    Remote.class, (org.aopalliance.intercept.MethodInterceptor) invocation -> {
                        assertThat(isFree("remote:" + invocation.getArguments()[0])).isFalse();
                        return "called";
                    });
        }

        @Override
        public Class<?> getObjectType() {
            return Remote.class;
        }
    }

    /** As Spring Data does: what is behind it knows nothing of the interface. */
    static class RepositoryFactory implements FactoryBean<Remote> {
        static class Target {}

        @Override
        public Remote getObject() {
            org.springframework.aop.framework.ProxyFactory factory =
                    new org.springframework.aop.framework.ProxyFactory(Remote.class, (org.aopalliance.intercept.MethodInterceptor)
                            invocation -> {
                                assertThat(isFree("remote:" + invocation.getArguments()[0])).isFalse();
                                return "called";
                            });
            factory.setTarget(new Target());
            return (Remote) factory.getProxy();
        }

        @Override
        public Class<?> getObjectType() {
            return Remote.class;
        }
    }

    @Test
    void interfacesAndProductsOfFactoriesAreLocked() {
        for (Class<?> factory : List.of(RemoteFactory.class, AdvisedFactory.class, RepositoryFactory.class)) {
            application()
                    .withBean(factory)
                    .run(context -> assertThat(context.getBean(Remote.class).call(4)).as("%s", factory).isEqualTo("called"));
            assertThat(isFree("remote:4")).isTrue();
        }
        application()
                .withBean(Remote.class, LockedSpanTest::proxy)
                .run(context -> assertThat(context.getBean(Remote.class).call(5)).isEqualTo("called"));
    }
}

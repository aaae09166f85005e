package io.leasehold.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.LockLostException;
import io.leasehold.NotAcquiredException;
import io.leasehold.UnavailableException;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** What runs instead of a method whose lock is not to be had, and the longest time of a hold. */
class LockedFallbackTest {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .withPropertyValues("leasehold.endpoints=" + leasehold.url());
    }

    static class Prices {
        @Locked(name = "prices", waitFor = "0s", fallback = "old")
        public String fresh(int item) {
            return "fresh " + item;
        }

        private String old(int item) {
            return "old " + item;
        }

        @Locked(name = "prices", waitFor = "0s", fallback = "why")
        public String told(int item) {
            return "fresh " + item;
        }

        private String why(int item, NotAcquiredException error) {
            return item + " " + error.code();
        }

        @Locked(name = "prices", fallback = "down")
        public String without() {
            return "fresh";
        }

        String down(LeaseholdException error) {
            return error.code().toString();
        }

        @Locked(name = "prices", waitFor = "0s", fallback = "oldStage")
        public CompletableFuture<String> stage() {
            return CompletableFuture.completedFuture("fresh");
        }

        private CompletableFuture<String> oldStage() {
            return CompletableFuture.completedFuture("old");
        }

        @Locked(name = "prices", waitFor = "0s", fallback = "oldMono")
        public Mono<String> mono(int item) {
            return Mono.just("fresh " + item);
        }

        private Mono<String> oldMono(int item, LeaseholdException error) {
            return Mono.just(item + " " + error.code());
        }

        @Locked(name = "prices", waitFor = "0s", fallback = "oldFlux")
        public Flux<Integer> flux() {
            return Flux.just(1);
        }

        private Flux<Integer> oldFlux() {
            return Flux.just(2, 3);
        }

        @Locked(name = "prices", waitFor = "0s", fallback = "fails")
        public String failing() {
            throw new NotSold();
        }

        private String fails() {
            throw new NotSold();
        }

        @Locked(name = "prices", maxHold = "300ms")
        public Guard slow() {
            Guard guard = CurrentLock.guard();
            until("its time is over", () -> !guard.held());
            return guard;
        }
    }

    static class NotSold extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    @Test
    void theFallbackRunsWhereTheLockIsNotToBeHad() {
        application().withBean(Prices.class).run(context -> {
            Prices prices = context.getBean(Prices.class);
            assertThat(prices.fresh(1)).isEqualTo("fresh 1");
            assertThat(prices.stage().get(2, TimeUnit.MINUTES)).isEqualTo("fresh");
            assertThat(prices.mono(1).block(PATIENCE)).isEqualTo("fresh 1");
            try (Guard guard = leasehold.newClient().lock("prices").acquire()) {
                assertThat(prices.fresh(2)).isEqualTo("old 2");
                assertThat(prices.told(3)).isEqualTo("3 NOT_ACQUIRED");
                assertThat(prices.stage().get(2, TimeUnit.MINUTES)).isEqualTo("old");
                assertThat(prices.mono(4).block(PATIENCE)).isEqualTo("4 NOT_ACQUIRED");
                assertThat(prices.flux().collectList().block(PATIENCE)).containsExactly(2, 3);
                assertThatThrownBy(prices::failing).isInstanceOf(NotSold.class);
                assertThat(guard.held()).isTrue();
            }
            // What the method itself throws is nobody's turn.
            assertThatThrownBy(prices::failing).isInstanceOf(NotSold.class);
            assertThat(leasehold.client().lock("prices").isLocked()).isFalse();
        });
    }

    @Test
    void whereEtcdDoesNotAnswerItRunsIfItWantsToKnow() {
        application()
                .withBean(Prices.class)
                .withPropertyValues(
                        "leasehold.endpoints=http://127.0.0.1:1", "leasehold.request-timeout=100ms", "leasehold.connect-timeout=50ms")
                .run(context -> {
                    Prices prices = context.getBean(Prices.class);
                    assertThat(prices.without()).isIn("UNAVAILABLE", "DEADLINE_EXCEEDED");
                    assertThat(prices.mono(5).block(PATIENCE)).isIn("5 UNAVAILABLE", "5 DEADLINE_EXCEEDED");
                    assertThatThrownBy(() -> prices.fresh(1))
                            .isInstanceOfAny(UnavailableException.class, io.leasehold.DeadlineExceededException.class);
                });
    }

    static class Nobody {
        @Locked(name = "x", waitFor = "0s", fallback = "nobody")
        public String run(int item) {
            return "";
        }
    }

    static class OtherParameters {
        @Locked(name = "x", waitFor = "0s", fallback = "other")
        public String run(int item) {
            return "";
        }

        String other(long item) {
            return "";
        }
    }

    static class OtherResult {
        @Locked(name = "x", waitFor = "0s", fallback = "other")
        public String run(int item) {
            return "";
        }

        Object other(int item) {
            return "";
        }
    }

    static class Two {
        @Locked(name = "x", waitFor = "0s", fallback = "other")
        public String run() {
            return "";
        }

        String other() {
            return "";
        }

        String other(NotAcquiredException error) {
            return "";
        }
    }

    static class Never {
        @Locked(name = "x", fallback = "other")
        public String run() {
            return "";
        }

        String other(NotAcquiredException error) {
            return "";
        }
    }

    static class Both {
        @Locked(name = "x", waitFor = "0s", onBusy = Locked.OnBusy.SKIP, fallback = "other")
        public String run() {
            return "";
        }

        String other() {
            return "";
        }
    }

    static class NoTime {
        @Locked(name = "x", maxHold = "0s")
        public void run() {}
    }

    @Test
    void whatCouldNotBeCalledDoesNotStart() {
        refused(Nobody.class, "no such method");
        refused(OtherParameters.class, "no such method");
        refused(OtherResult.class, "no such method");
        refused(Two.class, "several such methods");
        refused(Never.class, "would never be called");
        refused(Both.class, "SKIP");
        refused(NoTime.class, "maxHold");
    }

    private static void refused(Class<?> bean, String why) {
        application().withBean(bean).run(context -> assertThat(context)
                .hasFailed()
                .getFailure()
                .rootCause()
                .isInstanceOf(LockedRefusedException.class)
                .hasMessageContaining(why)
                .hasMessageContaining(bean.getSimpleName()));
    }

    @Test
    void aHoldEndsAtItsLongestTimeAndTheCallerIsTold() {
        application().withBean(Prices.class).run(context -> {
            Prices prices = context.getBean(Prices.class);
            assertThatThrownBy(prices::slow).isInstanceOf(LockLostException.class);
            // Long before the TTL.
            context.getBean(LeaseholdClient.class).lock("prices").acquire(PATIENCE).close();
        });
    }

    private static void until(String what, BooleanSupplier condition) {
        try {
            LeaseholdExtension.await(what, condition);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}

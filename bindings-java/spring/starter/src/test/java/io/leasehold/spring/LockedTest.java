package io.leasehold.spring;

import static io.leasehold.spring.Locked.OnBusy.SKIP;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LockLostException;
import io.leasehold.LostReason;
import io.leasehold.NotAcquiredException;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;

/** What {@code @Locked} does with calls, and what it refuses. */
class LockedTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    /** Methods under all kinds of locks. */
    static class Orders {
        /** What happens inside the methods. Static: a field of the proxy would not be that of the bean. */
        static Runnable inside = () -> {};

        private final LeaseholdClient client;

        Orders(LeaseholdClient client) {
            this.client = client;
        }

        @Locked(name = "order:#{#id}")
        public long pay(long id) {
            assertThat(client.lock("order:" + id).isHeldByCurrentThread()).isTrue();
            inside.run();
            return CurrentLock.token();
        }

        @Locked(name = "${shop.name}/#{#order.length()}/#{#root.method.name}", waitFor = "${shop.patience}")
        public String named(String order) {
            return CurrentLock.guard().name();
        }

        @Locked(name = "busy", waitFor = "0s")
        public String fails() {
            return "ran";
        }

        @Locked(name = "busy", waitFor = "0s", onBusy = SKIP)
        public String skips() {
            return "ran";
        }

        @Locked(name = "busy", waitFor = "0s", onBusy = SKIP)
        public Optional<String> skipsOptional() {
            return Optional.of("ran");
        }

        @Locked(name = "busy", waitFor = "0s", onBusy = SKIP)
        public void skipsVoid() {
            inside.run();
        }

        @Locked(name = "null:#{#text}")
        public void mayBeNull(String text) {
            inside.run();
        }

        @Async
        @Locked(name = "async")
        public CompletableFuture<Boolean> later() {
            return CompletableFuture.completedFuture(client.lock("async").isHeldByCurrentThread());
        }
    }

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .withPropertyValues(
                        "leasehold.endpoints=" + leasehold.url(), "shop.name=books", "shop.patience=150ms");
    }

    private static void with(Consumer<Orders> test) {
        Orders.inside = () -> {};
        application().withBean(Orders.class).run(context -> test.accept(context.getBean(Orders.class)));
    }

    @Configuration
    @EnableAsync
    static class WithAsync {}

    @Test
    void aMethodRunsUnderTheLockAndLeavesNothing() {
        with(orders -> {
            long first = orders.pay(7);
            assertThat(orders.pay(7)).isGreaterThan(first);
            assertThat(leasehold.client().lock("order:7").isLocked()).isFalse();
        });
    }

    @Test
    void theLockIsHeldWhileTheMethodRuns() {
        with(orders -> {
            Orders.inside = () -> assertThat(leasehold.client().lock("order:8").isLocked()).isTrue();
            orders.pay(8);
            Orders.inside = () -> {
                throw new IllegalArgumentException("no money");
            };
            assertThatThrownBy(() -> orders.pay(8)).hasMessage("no money");
            assertThat(leasehold.client().lock("order:8").isLocked()).isFalse();
        });
    }

    @Test
    void aNameIsMadeOfPlaceholdersAndExpressions() {
        with(orders -> assertThat(orders.named("abc")).isEqualTo("books/3/named"));
    }

    @Test
    void theSameThreadEntersAgain() {
        with(orders -> {
            Orders.inside = () -> {
                Orders.inside = () -> {};
                orders.pay(9);
                assertThat(leasehold.client().lock("order:9").isLocked()).isTrue();
            };
            orders.pay(9);
            assertThat(leasehold.client().lock("order:9").isLocked()).isFalse();
        });
    }

    @Test
    void busyFailsOrSkips() {
        with(orders -> {
            Orders.inside = () -> {
                throw new AssertionError("it ran without the lock");
            };
            try (Guard guard = acquire("busy")) {
                assertThatThrownBy(orders::fails)
                        .isInstanceOf(NotAcquiredException.class)
                        .hasMessageContaining("busy");
                assertThat(orders.skips()).isNull();
                assertThat(orders.skipsOptional()).isEmpty();
                orders.skipsVoid();
                assertThat(guard.held()).isTrue();
            }
            assertThat(orders.fails()).isEqualTo("ran");
            assertThat(orders.skips()).isEqualTo("ran");
            assertThat(orders.skipsOptional()).contains("ran");
        });
    }

    @Test
    void theWaitHasALimit() {
        with(orders -> {
            try (Guard guard = acquire("books/2/named")) {
                long begun = System.nanoTime();
                assertThatThrownBy(() -> orders.named("ab")).isInstanceOf(NotAcquiredException.class);
                assertThat(System.nanoTime() - begun).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(140));
                assertThat(guard.held()).isTrue();
            }
        });
    }

    @Test
    void anInterruptEndsTheWait() {
        with(orders -> {
            try (Guard guard = acquire("order:5")) {
                Thread.currentThread().interrupt();
                assertThatThrownBy(() -> orders.pay(5)).isInstanceOf(CancellationException.class);
                assertThat(Thread.interrupted()).isTrue();
                assertThat(guard.held()).isTrue();
                assertThat(leasehold.client().lock("order:5").queue()).hasSize(1);
            }
        });
    }

    @Test
    void aLossIsRaisedUnlessTheMethodFailed() {
        with(orders -> {
            Orders.inside = () -> leasehold.lose("order:1");
            assertThatThrownBy(() -> orders.pay(1))
                    .isInstanceOfSatisfying(
                            LockLostException.class,
                            lost -> assertThat(lost.reason()).isEqualTo(LostReason.KEY_DELETED));
            Orders.inside = () -> {
                leasehold.lose("order:1");
                throw new IllegalArgumentException("no money");
            };
            assertThatThrownBy(() -> orders.pay(1))
                    .hasMessage("no money")
                    .satisfies(thrown -> assertThat(thrown.getSuppressed()).hasAtLeastOneElementOfType(LockLostException.class));
        });
    }

    @Test
    void anExpressionThatIsNullLocksNothing() {
        with(orders -> {
            Orders.inside = () -> {
                throw new AssertionError("it ran");
            };
            assertThatThrownBy(() -> orders.mayBeNull(null))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("#text is null");
        });
    }

    @Test
    void anAsynchronousMethodHoldsTheLockWhereItWorks() {
        application().withBean(Orders.class).withUserConfiguration(WithAsync.class).run(context -> {
            Orders orders = context.getBean(Orders.class);
            assertThat(orders.later().get(10, TimeUnit.SECONDS)).isTrue();
        });
    }

    // --- what is refused when the application starts ---

    static class SkipsPrimitive {
        @Locked(name = "x", onBusy = SKIP)
        public int count() {
            return 1;
        }
    }

    static class FinalMethod {
        @Locked(name = "x")
        public final void run() {}
    }

    static class PrivateMethod {
        @Locked(name = "x")
        private void run() {}
    }

    static class StaticMethod {
        @Locked(name = "x")
        public static void run() {}
    }

    static final class FinalClass {
        @Locked(name = "x")
        public void run() {}
    }

    static class BadExpression {
        @Locked(name = "x:#{#}")
        public void run() {}
    }

    static class BadWait {
        @Locked(name = "x", waitFor = "soon")
        public void run() {}
    }

    static class BadTtl {
        @Locked(name = "x", ttl = "1s")
        public void run() {}
    }

    static class NoName {
        @Locked(name = "")
        public void run() {}
    }

    @Test
    void whatCannotBeLockedDoesNotStart() {
        refuses(SkipsPrimitive.class, "returns int");
        refuses(FinalMethod.class, "final");
        refuses(PrivateMethod.class, "private");
        refuses(StaticMethod.class, "static");
        refuses(FinalClass.class, "its class is final");
        refuses(BadTtl.class, "shorter than 2 s");
        refuses(BadExpression.class, "cannot be parsed");
        refuses(BadWait.class, "soon");
        refuses(NoName.class, "empty");
    }

    private static void refuses(Class<?> type, String why) {
        application()
                .withBean(type)
                .run(context -> assertThat(context)
                        .hasFailed()
                        .getFailure()
                        .rootCause()
                        .hasMessageContaining("@Locked on")
                        .hasMessageContaining(why));
    }

    private static Guard acquire(String name) {
        try {
            return leasehold.client().lock(name).acquire();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }
}

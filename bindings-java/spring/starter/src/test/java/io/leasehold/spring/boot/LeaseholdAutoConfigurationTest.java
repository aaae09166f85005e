package io.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.jayway.jsonpath.JsonPath;
import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.UnauthenticatedException;
import io.leasehold.shedlock.LeaseholdLockProvider;
import io.leasehold.spring.Locked;
import io.leasehold.spring.integration.LeaseholdLockRegistry;
import io.leasehold.test.LeaseholdExtension;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration;
import org.springframework.boot.test.context.assertj.AssertableApplicationContext;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.context.runner.ContextConsumer;
import org.springframework.context.ApplicationContext;
import org.springframework.context.SmartLifecycle;

/** What an application gets from the starter, and what turns it off. */
class LeaseholdAutoConfigurationTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        LeaseholdAutoConfiguration.class,
                        LeaseholdEndpointAutoConfiguration.class,
                        LeaseholdHealthAutoConfiguration.class,
                        LeaseholdMetricsAutoConfiguration.class,
                        LeaseholdObservationAutoConfiguration.class,
                        LeaseholdIntegrationAutoConfiguration.class,
                        LeaseholdShedLockAutoConfiguration.class,
                        MetricsAutoConfiguration.class,
                        CompositeMeterRegistryAutoConfiguration.class))
                .withPropertyValues("leasehold.endpoints=" + leasehold.url());
    }

    @Test
    void thereIsAClient() {
        application()
                .withPropertyValues("leasehold.identity=shop-1", "leasehold.namespace=/shop", "leasehold.ttl=7s")
                .run(context -> {
                    LeaseholdClient client = context.getBean(LeaseholdClient.class);
                    assertThat(client.identity()).isEqualTo("shop-1");
                    try (Guard guard = client.lock("/lock/a").acquire()) {
                        assertThat(guard.key()).startsWith("/shop/lock/a/");
                        assertThat(guard.remaining()).isBetween(Duration.ofSeconds(5), Duration.ofSeconds(7));
                    }
                });
    }

    /** Each option is given a value that the client refuses, or that is seen in its message: so it has arrived there. */
    @Test
    void everyOptionReachesTheClient() {
        refused("ttl", "leasehold.ttl=1s");
        refused("connect timeout", "leasehold.connect-timeout=1ms");
        refused("request timeout", "leasehold.request-timeout=2h");
        refused("namespace", "leasehold.namespace=" + "x".repeat(1025));
        refused("identity", "leasehold.identity=" + "x".repeat(257));
        refused("no-such-ca.pem", "leasehold.endpoints=https://127.0.0.1:1", "leasehold.ca-file=no-such-ca.pem");
        refused(
                "no-such-cert.pem",
                "leasehold.endpoints=https://127.0.0.1:1",
                "leasehold.cert-file=no-such-cert.pem",
                "leasehold.key-file=no-such-key.pem");
        refused("key file", "leasehold.endpoints=https://127.0.0.1:1", "leasehold.cert-file=no-such-cert.pem");
        refused("certificate file", "leasehold.endpoints=https://127.0.0.1:1", "leasehold.key-file=no-such-key.pem");
        refused("leasehold.password", "leasehold.user=root");
        String[] away = {"leasehold.endpoints=http://192.0.2.1:1", "leasehold.user=root", "leasehold.password=s3cret"};
        refused("plaintext_password", away);
        application()
                .withPropertyValues(away)
                .withPropertyValues("leasehold.plaintext-password=true")
                .run(context -> assertThat(context).hasNotFailed());
    }

    private static void refused(String what, String... properties) {
        application()
                .withPropertyValues(properties)
                .run(context -> assertThat(context)
                        .hasFailed()
                        .getFailure()
                        .rootCause()
                        .satisfies(cause -> assertThat(cause.getMessage().toLowerCase(java.util.Locale.ROOT)).contains(what)));
    }

    /** What the client learns tomorrow must become a property. Executors and listeners are no values: they are beans. */
    @Test
    void everyOptionIsAProperty() {
        Set<String> options = Stream.of(LeaseholdClient.Builder.class.getDeclaredMethods())
                .filter(method -> Modifier.isPublic(method.getModifiers()))
                .map(Method::getName)
                .collect(Collectors.toSet());
        options.removeAll(Set.of("build", "executor", "listener"));
        assertThat(Stream.of(LeaseholdProperties.class.getRecordComponents()).map(RecordComponent::getName))
                .containsAll(options);
    }

    /** On an etcd with users, because elsewhere nobody asks who the client is. */
    @Test
    void userAndPasswordReachTheClient() throws Exception {
        Path program = Path.of(System.getProperty("leasehold.target"), "debug/leasehold-etcd");
        Process etcd = new ProcessBuilder(program.toString(), "--root-password", "right")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try {
            String endpoint = JsonPath.read(etcd.inputReader().readLine(), "$.endpoints[0]");
            ApplicationContextRunner application =
                    application().withPropertyValues("leasehold.endpoints=" + endpoint, "leasehold.user=root");
            application
                    .withPropertyValues("leasehold.password=right")
                    .run(context -> context.getBean(LeaseholdClient.class).ping());
            application.withPropertyValues("leasehold.password=wrong").run(context -> assertThatThrownBy(
                            context.getBean(LeaseholdClient.class)::ping)
                    .isInstanceOf(UnauthenticatedException.class));
        } finally {
            etcd.outputWriter().close();
            assertThat(etcd.waitFor(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void customizersComeAfterTheProperties() {
        application()
                .withPropertyValues("leasehold.identity=property")
                .withBean(LeaseholdClientBuilderCustomizer.class, () -> builder -> builder.identity("customizer"))
                .run(context -> assertThat(context.getBean(LeaseholdClient.class).identity()).isEqualTo("customizer"));
    }

    @Test
    void ownBeansComeFirstAndEverythingCanBeTurnedOff() {
        LeaseholdClient own = leasehold.newClient();
        application()
                .withBean("own", LeaseholdClient.class, () -> own)
                .run(context -> assertThat(context).getBean(LeaseholdClient.class).isSameAs(own));
        application()
                .withPropertyValues("leasehold.enabled=false")
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .doesNotHaveBean(LeaseholdClient.class)
                        .doesNotHaveBean(LeaseholdMeters.class)
                        .doesNotHaveBean(LeaseholdHealthIndicator.class));
        application()
                .withPropertyValues(
                        "leasehold.metrics.enabled=false",
                        "management.health.leasehold.enabled=false",
                        "leasehold.integration.enabled=false",
                        "leasehold.shedlock.enabled=false")
                .run(context -> assertThat(context)
                        .hasSingleBean(LeaseholdClient.class)
                        .doesNotHaveBean(LeaseholdMeters.class)
                        .doesNotHaveBean(LeaseholdHealthIndicator.class)
                        .doesNotHaveBean(LeaseholdLockRegistry.class)
                        .doesNotHaveBean(LeaseholdLockProvider.class));
    }

    @Test
    void registryAndProviderAreThereWithTheirPrefixes() {
        application()
                .withPropertyValues("leasehold.integration.prefix=/i/")
                .run(context -> {
                    LeaseholdLockRegistry registry = context.getBean(LeaseholdLockRegistry.class);
                    registry.executeLocked("k", () -> assertThat(leasehold.client().lock("/i/k").isLocked())
                            .isTrue());
                    assertThat(context).hasSingleBean(LeaseholdLockProvider.class);
                });
    }

    @Test
    void healthIsUpOrDown() {
        application().run(context -> {
            Health health = context.getBean(LeaseholdHealthIndicator.class).health();
            assertThat(health.getStatus()).isEqualTo(Status.UP);
            assertThat(health.getDetails()).containsKeys("identity", "ping");
        });
        application()
                // Nobody listens on the discard port of this machine.
                .withPropertyValues("leasehold.endpoints=http://127.0.0.1:9", "leasehold.request-timeout=300ms")
                .run(context -> {
                    Health health =
                            context.getBean(LeaseholdHealthIndicator.class).health();
                    assertThat(health.getStatus()).isEqualTo(Status.DOWN);
                    assertThat(health.getDetails()).containsKeys("code", "error");
                });
    }

    @Test
    void metersCountWhatHappens() {
        metered(context -> {
            LeaseholdClient client = context.getBean(LeaseholdClient.class);
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            try (Guard guard = client.lock("m").acquire()) {
                assertThat(meters.get("leasehold.held").gauge().value()).isEqualTo(1);
                assertThat(client.lock("m").tryAcquire()).isEmpty();
                assertThat(guard.held()).isTrue();
            }
            assertThat(meters.get("leasehold.held").gauge().value()).isZero();
            assertThat(meters.get("leasehold.acquire").tag("outcome", "acquired").timer().count()).isEqualTo(1);
            assertThat(meters.get("leasehold.acquire").tag("outcome", "busy").timer().count()).isEqualTo(1);
            assertThat(meters.get("leasehold.hold").timer().count()).isEqualTo(1);
            assertThat(meters.get("leasehold.hold").timer().getId().getTags()).isEmpty();

            // Before there was any.
            assertThat(meters.get("leasehold.lost").tag("reason", "key_deleted").counter().count()).isZero();

            // The guard stays open: the loss alone ends the hold.
            Guard lost = client.lock("m").acquire();
            leasehold.lose("m");
            LeaseholdExtension.await(
                    "the loss is counted",
                    () -> meters.get("leasehold.lost").tag("reason", "key_deleted").counter().count() == 1);
            assertThat(meters.get("leasehold.held").gauge().value()).isZero();
            assertThat(lost.held()).isFalse();

            client.lock("m").acquireAsync().get(10, TimeUnit.SECONDS).releaseAsync().get(10, TimeUnit.SECONDS);
            assertThat(meters.get("leasehold.acquire").tag("outcome", "acquired").timer().count()).isEqualTo(3);
            LeaseholdExtension.await("the hold is over", () -> meters.get("leasehold.hold").timer().count() == 3);

            try (Guard guard = client.lock("m").acquire()) {
                CompletableFuture<Guard> waiting = client.lock("m").acquireAsync();
                waiting.cancel(false);
                LeaseholdExtension.await(
                        "the cancel is counted",
                        () -> meters.find("leasehold.acquire").tag("outcome", "cancelled").timer() != null);
                assertThat(guard.held()).isTrue();
            }
        });
    }

    @Test
    void metersHaveNamesOnlyIfAskedFor() {
        application()
                .withBean(SimpleMeterRegistry.class)
                .withPropertyValues("leasehold.metrics.names=true")
                .run(context -> {
                    context.getBean(LeaseholdClient.class).lock("n").acquire().close();
                    assertThat(context.getBean(MeterRegistry.class)
                                    .get("leasehold.hold")
                                    .tag("name", "n")
                                    .timer()
                                    .count())
                            .isEqualTo(1);
                });
    }

    private static void metered(ContextConsumer<AssertableApplicationContext> test) {
        application().withBean(SimpleMeterRegistry.class).run(test);
    }

    @Test
    void theShutdownWaitsForWhatIsHeld() throws Exception {
        CompletableFuture<Guard> held = new CompletableFuture<>();
        CompletableFuture<Long> closed = new CompletableFuture<>();
        Consumer<AssertableApplicationContext> begin = context -> {
            try {
                held.complete(context.getBean(LeaseholdClient.class).lock("s").acquire());
            } catch (InterruptedException interrupted) {
                held.completeExceptionally(interrupted);
            }
        };
        Thread application = new Thread(() -> {
            application().withPropertyValues("leasehold.shutdown-timeout=30s").run(begin::accept);
            closed.complete(System.nanoTime());
        });
        application.start();
        Guard guard = held.get(30, TimeUnit.SECONDS);
        // The context closes by now; it must still be at it, and the lock must still be ours.
        assertThat(closed.completeOnTimeout(0L, 300, TimeUnit.MILLISECONDS).copy().get()).isZero();
        assertThat(guard.held()).isTrue();
        guard.close();
        application.join(20_000);
        assertThat(application.isAlive()).isFalse();
    }

    /** Work of users that ends as late as a web server stops. */
    static final class LateWork implements SmartLifecycle {
        private final LeaseholdClient client;
        private final ApplicationContext context;
        private Guard guard;
        private boolean isFirst;

        // Not with the bean that waits: it would stop after whoever depends on it, whatever its phase.
        LateWork(LeaseholdClient client, ApplicationContext context) {
            this.client = client;
            this.context = context;
        }

        @Override
        public void start() {
            guard = client.lock("w").acquireAsync().join();
        }

        @Override
        public void stop() {
            isFirst = context.getBean(HeldLocks.class).isRunning();
            guard.close();
            guard = null;
        }

        @Override
        public boolean isRunning() {
            return guard != null;
        }

        @Override
        public int getPhase() {
            return SmartLifecycle.DEFAULT_PHASE - 2048;
        }
    }

    @Test
    void theShutdownLetsTheWorkEndBeforeItWaits() {
        CompletableFuture<LateWork> work = new CompletableFuture<>();
        application().withBean(LateWork.class).run(context -> work.complete(context.getBean(LateWork.class)));
        assertThat(work.join().isFirst).isTrue();
    }

    /** Locks once more when the application ends. */
    static class LastWords {
        static String said = "";

        @Locked(name = "last")
        public String speak() {
            return "spoken";
        }
    }

    static class Speaker implements AutoCloseable {
        private final LastWords words;

        Speaker(LastWords words) {
            this.words = words;
        }

        @Override
        public void close() {
            LastWords.said = words.speak();
        }
    }

    @Test
    void clientsOutliveTheBeansThatLock() {
        LastWords.said = "";
        application().withBean(Speaker.class).withBean(LastWords.class).run(context -> assertThat(context).hasNotFailed());
        assertThat(LastWords.said).isEqualTo("spoken");
        // Whatever was there first.
        LastWords.said = "";
        new ApplicationContextRunner()
                .withBean(Speaker.class)
                .withBean(LastWords.class)
                .withBean("own", LeaseholdClient.class, () -> LeaseholdClient.connect(leasehold.url()))
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(LastWords.said).isEqualTo("spoken");
    }

    @Test
    void operatorsSeeLocksAndCanTakeThemAway() {
        application().run(context -> assertThat(context).doesNotHaveBean(LocksEndpoint.class));
        application().withPropertyValues("management.endpoints.web.exposure.include=locks").run(context -> {
            LocksEndpoint endpoint = context.getBean(LocksEndpoint.class);
            Guard guard = context.getBean(LeaseholdClient.class).lock("/held").acquire();
            assertThat(endpoint.locks(null)).isEqualTo(new LocksEndpoint.Held(
                    context.getBean(LeaseholdClient.class).identity(), Map.of("/held", 1), Map.of()));
            assertThat(endpoint.locks("/held")).isInstanceOfSatisfying(LocksEndpoint.Queue.class, queue -> {
                assertThat(queue.queue()).hasSize(1);
                assertThat(queue.queue().get(0).token()).isEqualTo(guard.token());
            });
            CompletableFuture<Guard> waiting = context.getBean(LeaseholdClient.class).lock("/held").acquireAsync();
            assertThat(endpoint.locks(null)).isInstanceOfSatisfying(LocksEndpoint.Held.class, held ->
                    assertThat(held.waiting()).isEqualTo(Map.of("/held", 1)));
            waiting.cancel(false);
            assertThat(endpoint.forceRelease("/held", guard.token())).containsEntry("released", true);
            assertThat(endpoint.forceRelease("/held", guard.token())).containsEntry("released", false);
            LeaseholdExtension.await("the loss is known", () -> endpoint.locks(null) instanceof LocksEndpoint.Held held
                    && held.held().isEmpty());
            assertThat(guard.held()).isFalse();
        });
    }

    @Test
    void severalClientsAreNoTrouble() {
        application()
                .withBean("one", LeaseholdClient.class, leasehold::newClient)
                .withBean("two", LeaseholdClient.class, leasehold::newClient)
                .run(context -> {
                    assertThat(context).hasNotFailed().doesNotHaveBean(LeaseholdLockRegistry.class);
                    assertThat(context.getBean(CompositeHealthContributor.class).getContributor("two")).isNotNull();
                });
        application()
                .withBean("one", LeaseholdClient.class, leasehold::newClient)
                .withBean("two", LeaseholdClient.class, leasehold::newClient, definition -> definition.setPrimary(true))
                .run(context -> assertThat(context).hasNotFailed().hasSingleBean(LeaseholdLockRegistry.class));
    }

    @Test
    void theShutdownReleasesWhatIsHeldForTooLong() {
        application()
                .withPropertyValues("leasehold.shutdown-timeout=100ms")
                .run(context -> context.getBean(LeaseholdClient.class).lock("t").acquire());
        assertThat(leasehold.client().lock("t").isLocked()).isFalse();
    }

    @Test
    void propertiesAreDocumented() throws Exception {
        List<Map<String, Object>> properties = JsonPath.read(
                getClass().getResourceAsStream("/META-INF/spring-configuration-metadata.json"),
                "$.properties[?(@.name =~ /leasehold\\..*/)]");
        assertThat(properties)
                .extracting(property -> property.get("name"))
                .containsExactlyInAnyOrder(
                        "leasehold.enabled",
                        "leasehold.endpoints",
                        "leasehold.ttl",
                        "leasehold.namespace",
                        "leasehold.identity",
                        "leasehold.user",
                        "leasehold.password",
                        "leasehold.plaintext-password",
                        "leasehold.ca-file",
                        "leasehold.cert-file",
                        "leasehold.key-file",
                        "leasehold.ssl.bundle",
                        "leasehold.connect-timeout",
                        "leasehold.request-timeout",
                        "leasehold.shutdown-timeout",
                        "leasehold.locked.order",
                        "leasehold.locked.outer-transaction",
                        "leasehold.metrics.enabled",
                        "leasehold.metrics.names",
                        "leasehold.observations.enabled",
                        "leasehold.integration.enabled",
                        "leasehold.integration.prefix",
                        "leasehold.shedlock.enabled",
                        "leasehold.shedlock.prefix");
        assertThat(properties).allSatisfy(property -> assertThat(property.get("description")).asString().endsWith("."));
        assertThat(properties)
                .filteredOn("name", "leasehold.shutdown-timeout")
                .extracting(property -> property.get("defaultValue"))
                .containsExactly("20s");
    }
}

package io.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.jayway.jsonpath.JsonPath;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdException;
import io.leasehold.spring.Locked;
import io.leasehold.test.LeaseholdExtension;
import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.boot.autoconfigure.service.connection.ConnectionDetailsFactories;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.docker.compose.core.ConnectionPorts;
import org.springframework.boot.docker.compose.core.DockerComposeFile;
import org.springframework.boot.docker.compose.core.ImageReference;
import org.springframework.boot.docker.compose.core.RunningService;
import org.springframework.boot.docker.compose.service.connection.DockerComposeConnectionSource;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.testcontainers.service.connection.ServiceConnection;
import org.springframework.boot.testcontainers.service.connection.ServiceConnectionAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.utility.DockerImageName;

/** How an application comes to its etcd, and what it is told if it does not. */
class LeaseholdConnectionTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    private static ApplicationContextRunner application() {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class, SslAutoConfiguration.class));
    }

    // --- connection details ---

    @Test
    void detailsOfAnotherKindReplaceTheProperties() {
        LeaseholdConnectionDetails details = () -> List.of(leasehold.url());
        application()
                .withBean(LeaseholdConnectionDetails.class, () -> details)
                .withPropertyValues("leasehold.endpoints=http://192.0.2.1:1", "leasehold.user=root", "leasehold.password=s3cret")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    context.getBean(LeaseholdClient.class).lock("d").acquire().close();
                });
    }

    /** A container that runs already: what Testcontainers would have started, with an etcd behind its port. */
    private static final class Running extends GenericContainer<Running> {
        private final int port;

        Running(int port) {
            super(DockerImageName.parse("quay.io/coreos/etcd:v3.6.0"));
            this.port = port;
        }

        @Override
        public void start() {
            // It runs already.
        }

        @Override
        public void stop() {
            // It is not ours.
        }

        @Override
        public String getHost() {
            return "127.0.0.1";
        }

        @Override
        public Integer getMappedPort(int original) {
            return original == 2379 ? port : null;
        }
    }

    static int port;

    @TestConfiguration(proxyBeanMethods = false)
    static class Containers {
        @Bean
        @ServiceConnection(name = "etcd")
        Running etcd() {
            return new Running(port);
        }
    }

    @Test
    void aContainerWithServiceConnectionIsWhereEtcdIs() throws Exception {
        try (Harness etcd = new Harness()) {
            port = etcd.port();
            application()
                    .withConfiguration(AutoConfigurations.of(ServiceConnectionAutoConfiguration.class))
                    .withUserConfiguration(Containers.class)
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        assertThat(context.getBean(LeaseholdConnectionDetails.class).getEndpoints())
                                .containsExactly("http://127.0.0.1:" + port);
                        context.getBean(LeaseholdClient.class).ping();
                    });
        }
    }

    /** A service that runs already: what {@code docker compose ps} would have told. */
    private record Service(int port) implements RunningService {
        @Override
        public String name() {
            return "shop-etcd-1";
        }

        @Override
        public ImageReference image() {
            return ImageReference.of("gcr.io/etcd-development/etcd:v3.6.0");
        }

        @Override
        public String host() {
            return "127.0.0.1";
        }

        @Override
        public ConnectionPorts ports() {
            return new ConnectionPorts() {
                @Override
                public int get(int container) {
                    return container == 2379 ? port : 0;
                }

                @Override
                public List<Integer> getAll() {
                    return List.of(port);
                }

                @Override
                public List<Integer> getAll(String protocol) {
                    return List.of(port);
                }
            };
        }

        @Override
        public Map<String, String> env() {
            return Map.of();
        }

        @Override
        public Map<String, String> labels() {
            return Map.of();
        }

        @Override
        public DockerComposeFile composeFile() {
            return null;
        }
    }

    @Test
    void aServiceOfComposeIsWhereEtcdIs() throws Exception {
        try (Harness etcd = new Harness()) {
            Service service = new Service(etcd.port());
            DockerComposeConnectionSource source = source(service);
            Map<Class<?>, ConnectionDetails> details =
                    new ConnectionDetailsFactories(getClass().getClassLoader()).getConnectionDetails(source, true);
            LeaseholdConnectionDetails found = (LeaseholdConnectionDetails) details.get(LeaseholdConnectionDetails.class);
            application()
                    .withBean(LeaseholdConnectionDetails.class, () -> found)
                    .run(context -> context.getBean(LeaseholdClient.class).ping());
        }
    }

    /** Boot makes them itself, and gives no other way. */
    private static DockerComposeConnectionSource source(RunningService service) throws ReflectiveOperationException {
        Constructor<?> constructor = DockerComposeConnectionSource.class.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Object[] arguments = new Object[constructor.getParameterCount()];
        arguments[0] = service;
        return (DockerComposeConnectionSource) constructor.newInstance(arguments);
    }

    // --- SSL bundles ---

    /** On an etcd that asks for a certificate, and that an authority has signed which only the bundle knows. */
    @Test
    void aBundleIsForTheClientAndGoesWithTheApplication() throws Exception {
        Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
        long before = bundles(temporary);
        try (Harness etcd = new Harness("--tls", "mutual")) {
            ApplicationContextRunner trusting = application()
                    .withPropertyValues(
                            "leasehold.endpoints=" + etcd.endpoint(),
                            "leasehold.ssl.bundle=etcd",
                            "spring.ssl.bundle.pem.etcd.truststore.certificate=file:" + JsonPath.read(etcd.told, "$.ca_file"));
            trusting.withPropertyValues(
                            "spring.ssl.bundle.pem.etcd.keystore.certificate=file:" + JsonPath.read(etcd.told, "$.cert_file"),
                            "spring.ssl.bundle.pem.etcd.keystore.private-key=file:" + JsonPath.read(etcd.told, "$.key_file"))
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        context.getBean(LeaseholdClient.class).ping();
                        assertThat(bundles(temporary)).isEqualTo(before + 1);
                        // Another client of the same options reads the same files.
                        try (LeaseholdClient other = context.getBean(LeaseholdClient.class).toBuilder().build()) {
                            other.ping();
                        }
                    });
            trusting.withPropertyValues("leasehold.request-timeout=2s").run(context -> assertThatThrownBy(
                            context.getBean(LeaseholdClient.class)::ping)
                    .isInstanceOf(LeaseholdException.class));
        }
        assertThat(bundles(temporary)).isEqualTo(before);
    }

    private static long bundles(Path temporary) {
        try (Stream<Path> all = Files.list(temporary)) {
            return all.filter(path -> path.getFileName().toString().startsWith("leasehold-ssl-")).count();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    @Test
    void aBundleThatCannotBeUsedIsSaid() {
        refused("no-such-bundle", "leasehold.ssl.bundle=no-such-bundle");
        refused("set one of both", "leasehold.ssl.bundle=etcd", "leasehold.ca-file=ca.pem");
    }

    private static void refused(String what, String... properties) {
        application()
                .withPropertyValues("leasehold.endpoints=" + leasehold.url())
                .withPropertyValues(properties)
                .run(context -> assertThat(context).hasFailed().getFailure().rootCause().hasMessageContaining(what));
    }

    // --- what is said of failures ---

    static class Suspicious {
        @Locked(name = "x")
        public Stream<String> later() {
            return Stream.of();
        }
    }

    static class Eager {
        Eager(LeaseholdClient client) {
            client.ping();
        }
    }

    @Test
    void aFailureToStartSaysWhatToDo() {
        application()
                .withPropertyValues("leasehold.endpoints=" + leasehold.url(), "leasehold.ttl=1s")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .satisfies(analysis -> assertThat(analysis.getDescription()).contains("INVALID_ARGUMENT", "TTL"))
                        .satisfies(analysis -> assertThat(analysis.getAction()).contains("leasehold.*")));
        application()
                .withPropertyValues("leasehold.endpoints=http://127.0.0.1:1", "leasehold.request-timeout=100ms")
                .withBean(Eager.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()).getAction())
                        .contains("leasehold.endpoints", "memory://"));
        application()
                .withPropertyValues("leasehold.endpoints=" + leasehold.url())
                .withBean(Suspicious.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .satisfies(analysis -> assertThat(analysis.getDescription()).contains("Stream"))
                        .satisfies(analysis -> assertThat(analysis.getAction()).contains("Suspicious.later")));
    }

    /** As Boot finds it: by the analysers that are registered. */
    private static FailureAnalysis analysis(Throwable failure) {
        return org.springframework.core.io.support.SpringFactoriesLoader.forDefaultResourceLocation()
                .load(org.springframework.boot.diagnostics.FailureAnalyzer.class,
                        org.springframework.core.io.support.SpringFactoriesLoader.FailureHandler.handleMessage((message, error) -> {}))
                .stream()
                .filter(analyzer -> analyzer.getClass().getName().startsWith("io.leasehold."))
                .map(analyzer -> analyzer.analyze(failure))
                .filter(java.util.Objects::nonNull)
                .findFirst()
                .orElseThrow();
    }
}

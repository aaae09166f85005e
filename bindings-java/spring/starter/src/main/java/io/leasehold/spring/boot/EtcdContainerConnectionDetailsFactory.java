package io.leasehold.spring.boot;

import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionDetailsFactory;
import org.springframework.boot.testcontainers.service.connection.ContainerConnectionSource;
import org.testcontainers.containers.Container;

/** A container of etcd with {@code @ServiceConnection}: known by its image, or by the name {@code etcd}. */
final class EtcdContainerConnectionDetailsFactory
        extends ContainerConnectionDetailsFactory<Container<?>, LeaseholdConnectionDetails> {
    static final int PORT = 2379;

    /** Repositories of images; of all registries. */
    static final List<String> IMAGES =
            List.of("etcd", "coreos/etcd", "etcd-development/etcd", "bitnami/etcd", "bitnamilegacy/etcd");

    EtcdContainerConnectionDetailsFactory() {
        super(IMAGES);
    }

    @Override
    protected LeaseholdConnectionDetails getContainerConnectionDetails(ContainerConnectionSource<Container<?>> source) {
        return new Details(source);
    }

    private static final class Details extends ContainerConnectionDetails<Container<?>> implements LeaseholdConnectionDetails {
        Details(ContainerConnectionSource<Container<?>> source) {
            super(source);
        }

        /** What the annotations of Boot's say about the container, such as {@code @PemTrustStore}. */
        @Override
        public @Nullable SslBundle getSslBundle() {
            return super.getSslBundle();
        }

        @Override
        public List<String> getEndpoints() {
            Container<?> container = getContainer();
            return List.of((getSslBundle() == null ? "http://" : "https://") + container.getHost() + ":" + container.getMappedPort(PORT));
        }
    }
}

package io.leasehold.spring.boot;

import java.util.List;
import org.springframework.boot.docker.compose.core.RunningService;
import org.springframework.boot.docker.compose.service.connection.DockerComposeConnectionDetailsFactory;
import org.springframework.boot.docker.compose.service.connection.DockerComposeConnectionSource;

/** A service of etcd in {@code compose.yaml}: known by its image, or by the label of Boot's with the value {@code etcd}. */
final class EtcdComposeConnectionDetailsFactory extends DockerComposeConnectionDetailsFactory<LeaseholdConnectionDetails> {
    private static final int PORT = 2379;
    private static final String[] IMAGES = {
        "etcd", "coreos/etcd", "etcd-development/etcd", "bitnami/etcd", "bitnamilegacy/etcd"
    };

    EtcdComposeConnectionDetailsFactory() {
        super(IMAGES);
    }

    @Override
    protected LeaseholdConnectionDetails getDockerComposeConnectionDetails(DockerComposeConnectionSource source) {
        return new Details(source.getRunningService());
    }

    private static final class Details extends DockerComposeConnectionDetails implements LeaseholdConnectionDetails {
        private final List<String> endpoints;

        Details(RunningService service) {
            super(service);
            endpoints = List.of("http://" + service.host() + ":" + service.ports().get(PORT));
        }

        @Override
        public List<String> getEndpoints() {
            return endpoints;
        }
    }
}

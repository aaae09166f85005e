package io.leasehold.spring.boot;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;

/** The options of the client, as properties; what is not set has the client's default. */
@ConfigurationProperties("leasehold")
public class LeaseholdProperties {
    /** Whether to configure a client at all. */
    private boolean enabled = true;

    /** Endpoints of etcd, such as http://127.0.0.1:2379, or one memory://name for tests without a server. */
    private List<String> endpoints = List.of("http://127.0.0.1:2379");

    /** How long a lock stays taken after its owner crashed: 2 s to 30 days, rounded up to whole seconds. Default 15 s. */
    private @Nullable Duration ttl;

    /** Put before the name of every lock and before every key of a guarded write. */
    private @Nullable String namespace;

    /** Who this client is, shown to whoever looks at a queue. Default host:pid. */
    private @Nullable String identity;

    /** User, where etcd asks for one; needs a password. */
    private @Nullable String user;

    /** Password of the user. */
    private @Nullable String password;

    /** Certificates (PEM) of the authorities that may have signed etcd's certificate. Default: those that the machine trusts. */
    private @Nullable Path caFile;

    /** Our own certificate (PEM), where etcd asks for one; needs its key. */
    private @Nullable Path certFile;

    /** Private key (PEM) of our own certificate. */
    private @Nullable Path keyFile;

    /** How long opening a connection may take before the next endpoint is tried: 10 ms to 1 h. Default 2 s. */
    private @Nullable Duration connectTimeout;

    /** How long an operation may take that does not wait for a lock: 10 ms to 1 h. Default 5 s. */
    private @Nullable Duration requestTimeout;

    /** How long the shutdown waits for locks that are still held, before it releases them. */
    private Duration shutdownTimeout = Duration.ofSeconds(20);

    private final Integration integration = new Integration();

    private final Shedlock shedlock = new Shedlock();

    private final Metrics metrics = new Metrics();

    public boolean isEnabled() {
        return enabled;
    }

    public void setEnabled(boolean enabled) {
        this.enabled = enabled;
    }

    public List<String> getEndpoints() {
        return endpoints;
    }

    public void setEndpoints(List<String> endpoints) {
        this.endpoints = endpoints;
    }

    public @Nullable Duration getTtl() {
        return ttl;
    }

    public void setTtl(@Nullable Duration ttl) {
        this.ttl = ttl;
    }

    public @Nullable String getNamespace() {
        return namespace;
    }

    public void setNamespace(@Nullable String namespace) {
        this.namespace = namespace;
    }

    public @Nullable String getIdentity() {
        return identity;
    }

    public void setIdentity(@Nullable String identity) {
        this.identity = identity;
    }

    public @Nullable String getUser() {
        return user;
    }

    public void setUser(@Nullable String user) {
        this.user = user;
    }

    public @Nullable String getPassword() {
        return password;
    }

    public void setPassword(@Nullable String password) {
        this.password = password;
    }

    public @Nullable Path getCaFile() {
        return caFile;
    }

    public void setCaFile(@Nullable Path caFile) {
        this.caFile = caFile;
    }

    public @Nullable Path getCertFile() {
        return certFile;
    }

    public void setCertFile(@Nullable Path certFile) {
        this.certFile = certFile;
    }

    public @Nullable Path getKeyFile() {
        return keyFile;
    }

    public void setKeyFile(@Nullable Path keyFile) {
        this.keyFile = keyFile;
    }

    public @Nullable Duration getConnectTimeout() {
        return connectTimeout;
    }

    public void setConnectTimeout(@Nullable Duration connectTimeout) {
        this.connectTimeout = connectTimeout;
    }

    public @Nullable Duration getRequestTimeout() {
        return requestTimeout;
    }

    public void setRequestTimeout(@Nullable Duration requestTimeout) {
        this.requestTimeout = requestTimeout;
    }

    public Duration getShutdownTimeout() {
        return shutdownTimeout;
    }

    public void setShutdownTimeout(Duration shutdownTimeout) {
        this.shutdownTimeout = shutdownTimeout;
    }

    public Integration getIntegration() {
        return integration;
    }

    public Shedlock getShedlock() {
        return shedlock;
    }

    public Metrics getMetrics() {
        return metrics;
    }

    /** The lock registry of Spring Integration. */
    public static class Integration {
        /** Whether to configure it, where the library is there. */
        private boolean enabled = true;

        /** Put before the names of its locks, after the namespace. */
        private String prefix = "/spring-integration/";

        public boolean isEnabled() {
            return enabled;
        }

        public void setEnabled(boolean enabled) {
            this.enabled = enabled;
        }

        public String getPrefix() {
            return prefix;
        }

        public void setPrefix(String prefix) {
            this.prefix = prefix;
        }
    }

    /** The lock provider of ShedLock. */
    public static class Shedlock {
        /** Whether to configure it, where the library is there. */
        private boolean enabled = true;

        /** Put before the names of its locks, after the namespace. */
        private String prefix = "/shedlock/";

        public boolean isEnabled() {
            return enabled;
        }

        public void setEnabled(boolean enabled) {
            this.enabled = enabled;
        }

        public String getPrefix() {
            return prefix;
        }

        public void setPrefix(String prefix) {
            this.prefix = prefix;
        }
    }

    /** The meters. */
    public static class Metrics {
        /** Whether to register meters, where the application has a registry. */
        private boolean enabled = true;

        /** Whether meters have the lock's name as a tag. Only for few, fixed names: each one is a time series of its own. */
        private boolean names;

        public boolean isEnabled() {
            return enabled;
        }

        public void setEnabled(boolean enabled) {
            this.enabled = enabled;
        }

        public boolean isNames() {
            return names;
        }

        public void setNames(boolean names) {
            this.names = names;
        }
    }
}

package io.leasehold.spring.boot;

import io.leasehold.spring.OuterTransaction;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The options of the client, as properties; what is not set has the client's default.
 *
 * @param enabled Whether to configure a client at all.
 * @param endpoints Endpoints of etcd, such as http://127.0.0.1:2379, or one memory://name for tests without a server.
 * @param ttl How long a lock stays taken after its owner crashed: 2 s to 30 days, rounded up to whole seconds. Default 15 s.
 * @param namespace Put before the name of every lock and before every key of a guarded write.
 * @param identity Who this client is, shown to whoever looks at a queue. Default host:pid.
 * @param user User, where etcd asks for one; needs a password.
 * @param password Password of the user.
 * @param plaintextPassword Whether the password may go over plain http to other machines, where everybody on the way can read it.
 * @param caFile Certificates (PEM) of the authorities that may have signed etcd's certificate. Default: those that the machine
 *     trusts.
 * @param certFile Our own certificate (PEM), where etcd asks for one; needs its key.
 * @param keyFile Private key (PEM) of our own certificate.
 * @param ssl Certificates by a bundle of Spring Boot's, instead of files.
 * @param connectTimeout How long opening a connection may take before the next endpoint is tried: 10 ms to 1 h. Default 2 s.
 * @param requestTimeout How long an operation may take that does not wait for a lock: 10 ms to 1 h. Default 5 s.
 * @param shutdownTimeout How long the shutdown waits for locks that are still held, before it releases them.
 * @param locked How methods with @Locked are locked.
 * @param integration The lock registry of Spring Integration.
 * @param shedlock The lock provider of ShedLock.
 * @param metrics The meters.
 * @param observations The observations.
 */
@ConfigurationProperties("leasehold")
public record LeaseholdProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("http://127.0.0.1:2379") List<String> endpoints,
        @Nullable Duration ttl,
        @Nullable String namespace,
        @Nullable String identity,
        @Nullable String user,
        @Nullable String password,
        @DefaultValue("false") boolean plaintextPassword,
        @Nullable Path caFile,
        @Nullable Path certFile,
        @Nullable Path keyFile,
        @DefaultValue Ssl ssl,
        @Nullable Duration connectTimeout,
        @Nullable Duration requestTimeout,
        @DefaultValue("20s") Duration shutdownTimeout,
        @DefaultValue Locked locked,
        @DefaultValue Integration integration,
        @DefaultValue Shedlock shedlock,
        @DefaultValue Metrics metrics,
        @DefaultValue Observations observations) {
    /** Says nothing that is secret. */
    @Override
    public String toString() {
        return "LeaseholdProperties[endpoints=" + endpoints + "]";
    }

    /**
     * How methods with @Locked are locked.
     *
     * @param order Where the lock stands among what else is around a method: what has a smaller order is outside of it. Default:
     *     outside of everything but @Async.
     * @param outerTransaction What to do where a transaction has begun before the lock: hold the lock until that has ended, warn, or
     *     refuse to run the method.
     */
    public record Locked(
            @Nullable Integer order,
            @DefaultValue("hold") OuterTransaction outerTransaction) {}

    /**
     * The lock registry of Spring Integration.
     *
     * @param enabled Whether to configure it, where the library is there.
     * @param prefix Put before the names of its locks, after the namespace.
     */
    public record Integration(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("/spring-integration/") String prefix) {}

    /**
     * The lock provider of ShedLock.
     *
     * @param enabled Whether to configure it, where the library is there.
     * @param prefix Put before the names of its locks, after the namespace.
     */
    public record Shedlock(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("/shedlock/") String prefix) {}

    /**
     * The meters.
     *
     * @param enabled Whether to register meters, where the application has a registry.
     * @param names Whether meters have the lock's name as a tag. Only for few, fixed names: each one is a time series of its own.
     */
    public record Metrics(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("false") boolean names) {}

    /**
     * Certificates by a bundle of Spring Boot's, instead of files.
     *
     * @param bundle Name of the bundle: its trust store has the authorities, its key store our own certificate and key.
     */
    public record Ssl(@Nullable String bundle) {}

    /**
     * The observations.
     *
     * @param enabled Whether to observe each acquire and each hold, where the application has a registry for observations.
     */
    public record Observations(@DefaultValue("true") boolean enabled) {}
}

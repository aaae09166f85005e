package io.leasehold.spring.boot;

import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.boot.ssl.SslBundle;

/**
 * Where etcd is, and how to log in there: by the properties {@code leasehold.*}, or by a container of Testcontainers with {@code
 * @ServiceConnection}, by a service of Docker Compose, or by a bean of your own.
 */
public interface LeaseholdConnectionDetails extends ConnectionDetails {
    /** Endpoints of etcd, such as {@code http://127.0.0.1:2379}. */
    List<String> getEndpoints();

    /** The user, where etcd asks for one. */
    default @Nullable String getUser() {
        return null;
    }

    /** The password of the user. */
    default @Nullable String getPassword() {
        return null;
    }

    /** Whom to trust, and our own certificate. */
    default @Nullable SslBundle getSslBundle() {
        return null;
    }
}

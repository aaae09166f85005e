package io.leasehold.spring.boot;

import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.ssl.SslBundles;

/** What the properties say. */
final class PropertiesConnectionDetails implements LeaseholdConnectionDetails {
    private final LeaseholdProperties properties;
    private final @Nullable SslBundles bundles;

    PropertiesConnectionDetails(LeaseholdProperties properties, @Nullable SslBundles bundles) {
        this.properties = properties;
        this.bundles = bundles;
    }

    @Override
    public List<String> getEndpoints() {
        return properties.endpoints();
    }

    @Override
    public @Nullable String getUser() {
        return properties.user();
    }

    @Override
    public @Nullable String getPassword() {
        return properties.password();
    }

    @Override
    public @Nullable SslBundle getSslBundle() {
        String name = properties.ssl().bundle();
        if (name == null || name.isEmpty()) {
            return null;
        }
        if (bundles == null) {
            throw new IllegalArgumentException("leasehold.ssl.bundle is \"" + name + "\", but there are no SSL bundles here");
        }
        if (properties.caFile() != null || properties.certFile() != null || properties.keyFile() != null) {
            throw new IllegalArgumentException("leasehold.ssl.bundle and leasehold.ca-file, cert-file or key-file say the same; set one"
                    + " of both");
        }
        return bundles.getBundle(name);
    }
}

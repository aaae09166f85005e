package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.LockListener;
import io.leasehold.spring.LockedBeanPostProcessor;
import io.leasehold.spring.OuterTransaction;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.core.env.Environment;

/** The client, what {@code @Locked} needs, and the wait for held locks at shutdown. */
@AutoConfiguration
@ConditionalOnBooleanProperty(name = "leasehold.enabled", matchIfMissing = true)
@EnableConfigurationProperties(LeaseholdProperties.class)
public class LeaseholdAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LeaseholdConnectionDetails.class)
    PropertiesConnectionDetails leaseholdConnectionDetails(LeaseholdProperties properties, ObjectProvider<SslBundles> bundles) {
        return new PropertiesConnectionDetails(properties, bundles.getIfAvailable());
    }

    /** Goes after the client, which may read them again. */
    @Bean(destroyMethod = "close")
    SslFiles leaseholdSslFiles() {
        return new SslFiles();
    }

    /** The client. Nothing is connected before its first operation. */
    @Bean
    @ConditionalOnMissingBean
    LeaseholdClient leaseholdClient(
            LeaseholdProperties properties,
            LeaseholdConnectionDetails details,
            SslFiles files,
            ObjectProvider<LockListener> listeners,
            ObjectProvider<LeaseholdClientBuilderCustomizer> customizers) {
        LeaseholdClient.Builder builder = LeaseholdClient.builder(details.getEndpoints());
        set(properties.ttl(), builder::ttl);
        set(properties.namespace(), builder::namespace);
        set(properties.identity(), builder::identity);
        SslBundle bundle = details.getSslBundle();
        if (bundle != null) {
            files.apply(bundle, builder);
        } else if (details instanceof PropertiesConnectionDetails) {
            set(properties.caFile(), builder::caFile);
            set(properties.certFile(), builder::certFile);
            set(properties.keyFile(), builder::keyFile);
        }
        set(properties.connectTimeout(), builder::connectTimeout);
        set(properties.requestTimeout(), builder::requestTimeout);
        login(details, properties, builder);
        listeners.orderedStream().forEach(builder::listener);
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        return builder.build();
    }

    @Bean
    HeldLocks leaseholdHeldLocks(LeaseholdProperties properties) {
        return new HeldLocks(properties.shutdownTimeout());
    }

    // Static, and without beans: it is there before all others and must not bring them forth early.
    @Bean
    @ConditionalOnMissingBean
    static LockedBeanPostProcessor leaseholdLockedBeanPostProcessor(Environment environment) {
        Binder binder = Binder.get(environment);
        LockedBeanPostProcessor processor = new LockedBeanPostProcessor();
        processor.setProxyTargetClass(environment.getProperty("spring.aop.proxy-target-class", Boolean.class, true));
        processor.setLockOrder(binder.bind("leasehold.locked.order", Integer.class).orElse(Ordered.HIGHEST_PRECEDENCE));
        processor.setOuterTransaction(
                binder.bind("leasehold.locked.outer-transaction", OuterTransaction.class).orElse(OuterTransaction.HOLD));
        return processor;
    }

    // Not by Boot's PropertyMapper, which passes on in 3.5 what is not set, and does not in 4.
    private static <T> void set(@Nullable T value, Consumer<T> option) {
        if (value != null) {
            option.accept(value);
        }
    }

    private static void login(
            LeaseholdConnectionDetails details, LeaseholdProperties properties, LeaseholdClient.Builder builder) {
        String user = details.getUser();
        String password = details.getPassword();
        if ((user == null) != (password == null)) {
            throw new IllegalArgumentException("leasehold.user and leasehold.password belong together; set both or none");
        }
        if (user != null && password != null) {
            builder.user(user, password).plaintextPassword(properties.plaintextPassword());
        }
    }
}

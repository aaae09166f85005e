package io.leasehold.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.LeaseholdClient;
import io.leasehold.LockLostException;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.ArrayList;
import java.util.List;
import org.aopalliance.intercept.MethodInterceptor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.cache.concurrent.ConcurrentMapCacheManager;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Role;
import org.springframework.resilience.annotation.EnableResilientMethods;
import org.springframework.resilience.annotation.Retryable;

/** Where the lock stands among what else is around a method, and how it gets there without Boot. */
class LockedOrderTest {
    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.METHOD)
    @interface Watched {}

    static final List<String> seen = new ArrayList<>();

    private static void see(String who) {
        seen.add(who + (leasehold.client().lock("o").isLocked() ? " locked" : " free"));
    }

    static class Service {
        static Runnable inside = () -> {};

        @Watched
        @Locked(name = "o")
        @Cacheable("cache")
        public String cached(int id) {
            see("body");
            return "value";
        }

        @Locked(name = "o")
        @Retryable(maxRetries = 2, delay = 1)
        public String retried() {
            see("body");
            inside.run();
            return "value";
        }
    }

    @Configuration
    @EnableCaching(proxyTargetClass = true)
    @EnableResilientMethods(proxyTargetClass = true)
    static class Around {
        /** As an authorization is: asked before everything else. */
        @Bean
        @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
        static DefaultPointcutAdvisor security() {
            return advisor("security", 200);
        }

        @Bean
        @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
        static DefaultPointcutAdvisor late() {
            return advisor("late", 2000);
        }

        private static DefaultPointcutAdvisor advisor(String name, int order) {
            DefaultPointcutAdvisor advisor = new DefaultPointcutAdvisor(
                    new AnnotationMatchingPointcut(null, Watched.class, true), (MethodInterceptor) invocation -> {
                        see(name);
                        return invocation.proceed();
                    });
            advisor.setOrder(order);
            return advisor;
        }

        @Bean
        ConcurrentMapCacheManager cacheManager() {
            return new ConcurrentMapCacheManager();
        }

        @Bean
        Service service() {
            return new Service();
        }
    }

    private static ApplicationContextRunner application() {
        seen.clear();
        Service.inside = () -> {};
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .withUserConfiguration(Around.class)
                .withPropertyValues("leasehold.endpoints=" + leasehold.url());
    }

    @Test
    void itIsOutsideOfEverythingUnlessToldOtherwise() {
        application().run(context -> {
            context.getBean(Service.class).cached(1);
            assertThat(seen).containsExactly("security locked", "late locked", "body locked");
        });
        application().withPropertyValues("leasehold.locked.order=1000").run(context -> {
            context.getBean(Service.class).cached(1);
            assertThat(seen).containsExactly("security free", "late locked", "body locked");
            seen.clear();
            // What is in the cache needs the lock all the same: the cache is inside of it.
            context.getBean(Service.class).cached(1);
            assertThat(seen).containsExactly("security free", "late locked");
        });
        application().withPropertyValues("leasehold.locked.order=2147483647").run(context -> {
            context.getBean(Service.class).cached(1);
            assertThat(seen.subList(0, 2)).containsExactly("security free", "late free");
        });
    }

    @Test
    void aRetryTakesTheLockAnew() {
        application().run(context -> {
            Service.inside = () -> {
                if (seen.size() < 3) {
                    leasehold.lose("o");
                }
            };
            assertThat(context.getBean(Service.class).retried()).isEqualTo("value");
            assertThat(seen).containsExactly("body locked", "body locked", "body locked");
            Service.inside = () -> leasehold.lose("o");
            assertThatThrownBy(() -> context.getBean(Service.class).retried()).isInstanceOf(LockLostException.class);
        });
    }

    @Configuration
    @EnableLocked(order = 1000)
    static class WithoutBoot {
        @Bean
        LeaseholdClient client() {
            return LeaseholdClient.connect(leasehold.url());
        }

        @Bean(destroyMethod = "close")
        LeaseholdClient other() {
            return LeaseholdClient.builder(leasehold.url()).namespace("other/").build();
        }
    }

    static class Qualified {
        private final String part = "pay";

        public String part() {
            return part;
        }

        @Locked(name = "#{@qualified.part()}:#{#id}", client = "other")
        public String key(int id) {
            return CurrentLock.guard().key();
        }

        @Locked(name = "short", client = "client", maxHold = "2s")
        public boolean endsByItself() throws InterruptedException {
            var guard = CurrentLock.guard();
            LeaseholdExtension.await("the hold ends", () -> !guard.held());
            return guard.held();
        }

        @Locked(name = "short", client = "client", ttl = "30s")
        public long remaining() {
            return CurrentLock.guard().remaining().toSeconds();
        }
    }

    @Test
    void itNeedsNoBootAndKnowsClientsByName() {
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext()) {
            context.register(WithoutBoot.class);
            context.registerBean("qualified", Qualified.class);
            context.refresh();
            Qualified qualified = context.getBean(Qualified.class);
            assertThat(qualified.key(7)).startsWith("other/pay:7/");
            assertThatThrownBy(qualified::endsByItself).isInstanceOf(LockLostException.class);
            assertThat(qualified.remaining()).isBetween(25L, 30L);
        }
    }
}

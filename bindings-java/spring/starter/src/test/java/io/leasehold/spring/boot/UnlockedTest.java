package io.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.spring.Locked;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Beans with {@code @Locked} where nothing takes the lock: such an application does not start. */
class UnlockedTest {
    static class Job {
        @Locked(name = "job")
        public String run() {
            return "ran";
        }
    }

    /** As a slice of a test is: without the starter's configuration. */
    @Configuration
    static class Slice {
        @Bean
        Job job() {
            return new Job();
        }
    }

    @Configuration
    @EnableAutoConfiguration
    static class Application extends Slice {}

    @Configuration
    static class Empty {}

    private static ConfigurableApplicationContext start(Class<?> type, String... properties) {
        SpringApplication application = new SpringApplicationBuilder(type)
                .web(WebApplicationType.NONE)
                .properties(properties)
                .properties("spring.main.banner-mode=off", "spring.datasource.generate-unique-name=true")
                .build();
        return application.run();
    }

    @Test
    void anApplicationWithoutTheStartersConfigurationIsRefused() {
        assertThatThrownBy(() -> start(Slice.class).close())
                .rootCause()
                .hasMessageContaining("@Locked")
                .hasMessageContaining("job")
                .hasMessageContaining("memory://");
        assertThatThrownBy(() -> start(Application.class, "leasehold.enabled=false").close())
                .rootCause()
                .hasMessageContaining("leasehold.enabled");
    }

    @Test
    void oneThatLocksOrHasNothingToLockStarts() {
        try (ConfigurableApplicationContext context = start(Application.class, "leasehold.endpoints=memory://unlocked")) {
            assertThat(context.getBean(Job.class).run()).isEqualTo("ran");
        }
        assertThatCode(() -> start(Empty.class).close()).doesNotThrowAnyException();
    }
}

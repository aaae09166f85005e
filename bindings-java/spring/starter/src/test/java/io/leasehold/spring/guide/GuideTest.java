package io.leasehold.spring.guide;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LostReason;
import io.leasehold.spring.CurrentLock;
import io.leasehold.spring.Locked;
import io.leasehold.spring.boot.LeaseholdAutoConfiguration;
import io.leasehold.test.LeaseholdExtension;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/** The examples of docs/spring.md and the README, which run here: they may show nothing in Java that is not in this file. */
class GuideTest {
    private static final Path ROOT = Path.of(System.getProperty("leasehold.root"));

    /** Stands for the reader's own code. */
    static class Ledger {
        long token;

        void book(long id, long token) {
            this.token = token;
        }
    }

    static final Ledger ledger = new Ledger();

    // Part of the page from here on, as it stands there.

    @Service
    static class Orders {
        @Locked(name = "order:#{#id}", waitFor = "5s")
        @Transactional
        public void pay(long id) {
            ledger.book(id, CurrentLock.token()); // the receiver refuses a token smaller than it has seen
        }
    }

    @Service
    static class Nightly {
        private final LeaseholdClient client;

        Nightly(LeaseholdClient client) {
            this.client = client;
        }

        void run() throws InterruptedException {
            try (Guard guard = client.lock("/lock/nightly").acquire(Duration.ofSeconds(5))) {
                guard.put("/data/nightly", "done"); // refused by etcd if the lock is lost
            }
        }
    }

    @Nested
    class NightlyTest {
        @RegisterExtension
        static final LeaseholdExtension leasehold = LeaseholdExtension.memory(); // or etcd(), from the PATH

        @Test
        void itStopsWhenItsLockIsLost(LeaseholdClient client) throws Exception {
            Guard guard = client.lock("/lock/nightly").acquire();
            leasehold.lose("/lock/nightly");
            assertThat(guard.lost().get()).isEqualTo(LostReason.KEY_DELETED);
        }
    }

    // Until here.

    @Test
    void theServicesOfThePageRun() {
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
                .withPropertyValues("leasehold.endpoints=memory://guide")
                .withBean(Orders.class)
                .withBean(Nightly.class)
                .run(context -> {
                    context.getBean(Orders.class).pay(1);
                    assertThat(ledger.token).isPositive();
                    context.getBean(Nightly.class).run();
                });
    }

    @Test
    void thePageShowsWhatRuns() throws IOException {
        // The classes are nested here, and only here.
        String own = squeezed(Files.readString(ROOT.resolve(
                "bindings-java/spring/starter/src/test/java/io/leasehold/spring/guide/GuideTest.java")));
        assertThat(shown("docs/spring.md")).hasSize(3).allSatisfy(block -> assertThat(own).contains(block));
        assertThat(shown("README.md"))
                .filteredOn(block -> block.contains("@Locked"))
                .hasSize(1)
                .allSatisfy(block -> assertThat(own).contains(block));
    }

    private static List<String> shown(String page) throws IOException {
        List<String> shown = new ArrayList<>();
        Matcher blocks = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(ROOT.resolve(page)));
        while (blocks.find()) {
            shown.add(squeezed(blocks.group(1)));
        }
        return shown;
    }

    /** Without what differs because the classes are nested here: white space and one word. */
    private static String squeezed(String code) {
        return code.replaceAll("(?m)^(\\s*)static class ", "$1class ").replaceAll("\\s+", " ").trim();
    }
}

package io.leasehold.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LockLostException;
import io.leasehold.LostReason;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What a user's test gets, without a server and on an etcd of its own. */
class LeaseholdExtensionTest {
    /** The same for both: what the extension is for. */
    static void excludesAndLoses(LeaseholdExtension leasehold, LeaseholdClient client) throws Exception {
        Guard guard = client.lock("/lock/job").acquire();
        assertTrue(leasehold.newClient().lock("/lock/job").tryAcquire().isEmpty());

        leasehold.lose("/lock/job");

        assertEquals(LostReason.KEY_DELETED, guard.lost().get(10, TimeUnit.SECONDS));
        assertFalse(guard.held());
        assertThrows(LockLostException.class, guard::close);
        try (Guard next = leasehold.newClient().lock("/lock/job").acquire()) {
            assertTrue(next.token() > guard.token());
        }
    }

    @Nested
    @ExtendWith(LeaseholdExtension.class)
    class WithoutServer {
        @Test
        void excludesAndLoses(LeaseholdExtension leasehold, LeaseholdClient client) throws Exception {
            assertTrue(leasehold.url().startsWith("memory://"));
            assertSame(client, leasehold.client());
            LeaseholdExtensionTest.excludesAndLoses(leasehold, client);
        }

        @Test
        void whatNobodyHoldsNobodyCanLose(LeaseholdExtension leasehold) {
            IllegalStateException error =
                    assertThrows(IllegalStateException.class, () -> leasehold.lose("/lock/nobody"));
            assertTrue(error.getMessage().contains("/lock/nobody"));
        }
    }

    /** Not every machine has an etcd on its {@code PATH}: takes the one that the harness of all tests has. */
    static LeaseholdExtension onEtcd() {
        try {
            String harness = System.getProperty("leasehold.target") + "/debug/leasehold-etcd";
            Process process = new ProcessBuilder(harness).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            try (BufferedReader told = process.inputReader()) {
                Matcher etcd = Pattern.compile("\"etcd\":\"([^\"]+)\"").matcher(told.readLine());
                assertTrue(etcd.find());
                System.setProperty(EtcdProcess.PROPERTY, etcd.group(1));
            } finally {
                // It ends with its input.
                process.getOutputStream().close();
            }
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        return LeaseholdExtension.etcd();
    }

    @Nested
    class OnEtcd {
        @RegisterExtension
        static final LeaseholdExtension leasehold = onEtcd();

        @Test
        void excludesAndLoses(LeaseholdClient client) throws Exception {
            assertTrue(leasehold.url().startsWith("http://127.0.0.1:"));
            LeaseholdExtensionTest.excludesAndLoses(leasehold, client);
        }
    }

    @Nested
    class ForEachTest {
        static final Set<String> seen = new HashSet<>();

        @RegisterExtension
        final LeaseholdExtension leasehold = LeaseholdExtension.memory();

        @Test
        void aStoreOfItsOwn() {
            assertTrue(seen.add(leasehold.url()));
        }

        @Test
        void andAnotherOne() {
            assertTrue(seen.add(leasehold.url()));
        }
    }

    /** One extension for a class and what is nested in it: one store, one client. */
    @Nested
    class Outer {
        @RegisterExtension
        static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

        static LeaseholdClient ofOuter;

        @BeforeEach
        void remember(LeaseholdClient client) {
            assertSame(leasehold.client(), client);
            assertTrue(ofOuter == null || ofOuter == client, "the same client for all of them");
            ofOuter = client;
        }

        @Test
        void works(LeaseholdClient client) {
            client.ping();
        }

        @Nested
        class Inner {
            @Test
            void locksWhatTheOuterOneLocks(LeaseholdClient client) throws Exception {
                try (Guard guard = client.lock("/nested").acquire()) {
                    assertTrue(leasehold.newClient().lock("/nested").tryAcquire().isEmpty());
                    assertTrue(guard.held());
                }
            }
        }

        @Nested
        class Another {
            @Test
            void itsClientIsOpen(LeaseholdClient client) {
                client.ping();
            }
        }
    }

    @Test
    void itCannotBeUsedBeforeItBegins() {
        assertThrows(IllegalStateException.class, () -> LeaseholdExtension.memory().url());
    }
}

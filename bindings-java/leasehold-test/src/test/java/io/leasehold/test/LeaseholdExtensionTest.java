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
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
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

    @Nested
    class OnEtcd {
        @RegisterExtension
        static final LeaseholdExtension leasehold = LeaseholdExtension.etcd();

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

    @Test
    void itCannotBeUsedBeforeItBegins() {
        assertThrows(IllegalStateException.class, () -> LeaseholdExtension.memory().url());
    }
}

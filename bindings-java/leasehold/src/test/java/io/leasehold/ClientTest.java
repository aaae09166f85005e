package io.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** Clients: their options, their state, their end, and what they leave to be cleaned up. */
final class ClientTest {
    private static String refused(UnaryOperator<LeaseholdClient.Builder> options) {
        return assertThrows(
                        InvalidArgumentException.class,
                        () -> options.apply(LeaseholdClient.builder("http://127.0.0.1:1")).build())
                .getMessage();
    }

    @Test
    void badOptionsAreNamedAtOnceAndSecretsAreNot() {
        assertTrue(refused(it -> it.ttl(Duration.ofMillis(1999))).contains("TTL"));
        assertTrue(refused(it -> it.ttl(Duration.ofSeconds(-1))).contains("TTL"));
        assertTrue(refused(it -> it.namespace("x".repeat(2000))).contains("namespace"));
        assertTrue(refused(it -> it.identity("")).contains("identity"));
        assertTrue(refused(it -> it.caFile(Path.of("/no/such/ca.pem"))).contains("/no/such/ca.pem"));
        assertTrue(refused(it -> it.certFile(Path.of("x"))).contains("key file"));
        assertTrue(refused(it -> it.keyFile(Path.of("x"))).contains("certificate"));
        assertTrue(refused(it -> it.connectTimeout(Duration.ofHours(2))).contains("connect timeout"));
        assertTrue(refused(it -> it.requestTimeout(Duration.ofMillis(1))).contains("request timeout"));
        assertThrows(InvalidArgumentException.class, () -> LeaseholdClient.connect(""));
        String message = assertThrows(
                        InvalidArgumentException.class, () -> LeaseholdClient.connect("http://root:s3cret@a:1"))
                .getMessage();
        assertFalse(message.contains("s3cret"));
        assertThrows(NullPointerException.class, () -> LeaseholdClient.builder("http://a:1").user("root", nothing()));
    }

    @SuppressWarnings("NullAway")
    private static String nothing() {
        return null;
    }

    @Test
    void isLazy() {
        long before = dispatchers();
        try (LeaseholdClient client = LeaseholdClient.connect("http://127.0.0.1:1")) {
            client.lock("/x");
            assertEquals(before, dispatchers());
        }
    }

    private static long dispatchers() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("leasehold-dispatcher"))
                .count();
    }

    @Test
    void anUnreachableEtcdFailsTheFirstOperation() {
        try (LeaseholdClient client = LeaseholdClient.builder("http://127.0.0.1:1")
                .connectTimeout(Duration.ofMillis(100))
                .requestTimeout(Duration.ofMillis(300))
                .build()) {
            LeaseholdException error = assertThrows(LeaseholdException.class, client::ping);
            assertTrue(error instanceof UnavailableException || error instanceof DeadlineExceededException);
            assertThrows(LeaseholdException.class, client.lock("/x")::lock);
        }
    }

    @Test
    void pingsAndClosesTwice() throws Exception {
        LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint);
        client.ping();
        client.pingAsync().get();
        client.closeAsync().get();
        client.close();
        assertThrows(ClientClosedException.class, client::ping);
        assertEquals(ClientClosedException.class,
                client.pingAsync().handle((done, error) -> error.getClass()).get());
    }

    @Test
    void theDispatcherEndsWithTheLastClient() throws Exception {
        for (int round = 0; round < 20; round++) {
            LeaseholdClient client = LeaseholdClient.connect("memory://rounds");
            CompletableFuture<LostReason> lost = client.lock("/x").acquire().lost();
            client.close();
            assertEquals(LostReason.CLIENT_CLOSED, lost.get(10, TimeUnit.SECONDS));
        }
        Etcd.until("no dispatcher runs", () -> dispatchers() == 0);
    }

    @Test
    void theDispatcherEndsWhoeverUsesTheClientThatIsClosed() throws Exception {
        for (int round = 0; round < 300; round++) {
            LeaseholdClient client = LeaseholdClient.connect("memory://races");
            CyclicBarrier start = new CyclicBarrier(2);
            CompletableFuture<Void> used = CompletableFuture.runAsync(() -> {
                try {
                    start.await();
                    client.ping();
                } catch (ClientClosedException | InterruptedException | BrokenBarrierException closed) {
                    // It came second.
                }
            });
            start.await();
            client.close();
            used.get(10, TimeUnit.SECONDS);
        }
        Etcd.until("no dispatcher runs", () -> dispatchers() == 0);
    }

    @Test
    void tellsHowTheSessionFeels() throws Exception {
        List<SessionState> states = new CopyOnWriteArrayList<>();
        try (Etcd etcd = Etcd.start();
                LeaseholdClient client =
                        LeaseholdClient.builder(etcd.endpoint).ttl(Duration.ofSeconds(3)).build()) {
            Subscription subscription = client.onState(states::add);
            List<SessionState> others = new CopyOnWriteArrayList<>();
            client.onState(others::add).close();
            Guard guard = client.lock("/x").acquire();
            CompletableFuture<LostReason> lost = guard.lost();
            etcd.tell("freeze 0");
            assertEquals(LostReason.EXPIRED, lost.get(20, TimeUnit.SECONDS));
            Etcd.until("the loss is told", () -> states.contains(new SessionState(SessionState.Health.LOST, LostReason.EXPIRED)));
            assertTrue(states.contains(new SessionState(SessionState.Health.SUSPECT, null)), states.toString());
            etcd.tell("thaw 0");
            assertThrows(LockLostException.class, guard::close);
            subscription.close();
            subscription.close();
            assertTrue(others.isEmpty());
        }
    }

    @Test
    void aForgottenGuardIsLoggedAndNotReleased() throws Exception {
        List<String> messages = new CopyOnWriteArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                messages.add(new java.util.logging.SimpleFormatter().formatMessage(record));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("io.leasehold");
        logger.addHandler(handler);
        try (LeaseholdClient client = LeaseholdClient.connect(Etcd.shared().endpoint)) {
            String name = Etcd.name();
            long token = client.lock(name).acquire().token();
            Etcd.until("it is complained about", () -> {
                System.gc();
                return messages.stream().anyMatch(it -> it.contains(name) && it.contains(Long.toString(token)));
            });
            assertEquals(token, client.lock(name).queue().get(0).token());
            assertTrue(client.lock(name).tryAcquire().isEmpty());
        } finally {
            logger.removeHandler(handler);
        }
    }

    @Test
    void everyErrorNumberHasItsClass() {
        for (ErrorCode code : ErrorCode.values()) {
            LeaseholdException error = (LeaseholdException) LeaseholdException.of(code.number(), 0, "why");
            assertEquals(code, error.code());
            assertEquals("why", error.getMessage());
        }
        assertEquals(ErrorCode.INTERNAL, ErrorCode.of(12345));
        for (LostReason reason : LostReason.values()) {
            assertEquals(reason, ((LockLostException) LeaseholdException.of(12, reason.number(), "")).reason());
        }
    }
}

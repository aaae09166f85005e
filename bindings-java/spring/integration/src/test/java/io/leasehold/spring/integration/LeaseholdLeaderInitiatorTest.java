package io.leasehold.spring.integration;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.LeaseholdClient;
import io.leasehold.test.LeaseholdExtension;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.leader.event.AbstractLeaderEvent;

/** Leader election as Spring Integration has it, on an election of etcd. */
class LeaseholdLeaderInitiatorTest {
    private static final String ELECTION = "/spring-integration/cook";

    @RegisterExtension
    static final LeaseholdExtension leasehold = LeaseholdExtension.memory();

    /** Notes what it is told, and fails as it is told to. */
    private static final class Noting extends DefaultCandidate {
        final List<String> heard = new CopyOnWriteArrayList<>();
        final AtomicInteger failures = new AtomicInteger();

        Noting(String id) {
            super(id, "cook");
        }

        @Override
        public void onGranted(Context context) {
            assertThat(context.isLeader()).isTrue();
            if (failures.getAndDecrement() > 0) {
                throw new NoClassDefFoundError("planted: a candidate that fails");
            }
            heard.add("granted");
        }

        @Override
        public void onRevoked(Context context) {
            assertThat(context.isLeader()).isFalse();
            heard.add("revoked");
        }
    }

    @Test
    void leadersFollowEachOther(LeaseholdClient client) throws Exception {
        Noting one = new Noting("one");
        Noting two = new Noting("two");
        LeaseholdLeaderInitiator first = new LeaseholdLeaderInitiator(client, one);
        LeaseholdLeaderInitiator second = new LeaseholdLeaderInitiator(leasehold.newClient(), two);
        assertThat(first.getContext().isLeader()).isFalse();
        first.start();
        first.start();
        LeaseholdExtension.await("the first one leads", () -> one.heard.equals(List.of("granted")));
        assertThat(client.election(ELECTION).leader().orElseThrow().text()).isEqualTo("one");
        second.start();
        LeaseholdExtension.await("the second one stands", () -> client.lock(ELECTION).queue().size() == 2);
        assertThat(first.getContext().isLeader()).isTrue();
        assertThat(second.getContext().isLeader()).isFalse();

        // It stands again, behind the other.
        first.getContext().yield();
        LeaseholdExtension.await("the second one leads", () -> second.getContext().isLeader());
        assertThat(one.heard).containsExactly("granted", "revoked");
        LeaseholdExtension.await("the first one stands", () -> client.lock(ELECTION).queue().size() == 2);
        second.stop();
        assertThat(two.heard).containsExactly("granted", "revoked");
        assertThat(second.isRunning()).isFalse();
        LeaseholdExtension.await("the first one leads again", () -> one.heard.size() == 3);
        first.stop();
        first.stop();
        assertThat(client.lock(ELECTION).isLocked()).isFalse();
        // And once more, from the start.
        second.start();
        LeaseholdExtension.await("the second one leads again", () -> two.heard.size() == 3);
        second.stop();
    }

    @Test
    void whoeverLosesItIsToldAndStandsAgain(LeaseholdClient client) throws Exception {
        Noting candidate = new Noting("loser");
        LeaseholdLeaderInitiator initiator = new LeaseholdLeaderInitiator(client, candidate);
        initiator.start();
        LeaseholdExtension.await("it leads", () -> initiator.getContext().isLeader());
        leasehold.lose(ELECTION);
        LeaseholdExtension.await("it leads again", () -> candidate.heard.equals(List.of("granted", "revoked", "granted")));
        initiator.stop();
        assertThat(candidate.heard).containsExactly("granted", "revoked", "granted", "revoked");
    }

    @Test
    void aCandidateThatFailsDoesNotEndItsCandidacy(LeaseholdClient client) throws Exception {
        Noting candidate = new Noting("failing");
        candidate.failures.set(1);
        LeaseholdLeaderInitiator initiator = new LeaseholdLeaderInitiator(client, candidate);
        initiator.start();
        LeaseholdExtension.await("it leads", () -> candidate.heard.equals(List.of("revoked", "granted")));
        initiator.stop();
    }

    @Test
    void eventsArePublishedInTheApplication(LeaseholdClient client) throws Exception {
        List<String> events = new CopyOnWriteArrayList<>();
        try (GenericApplicationContext context = new GenericApplicationContext()) {
            context.addApplicationListener(event -> {
                if (event instanceof AbstractLeaderEvent leader) {
                    events.add(event.getClass().getSimpleName() + " " + leader.getRole());
                }
            });
            context.registerBean(
                    LeaseholdLeaderInitiator.class, () -> new LeaseholdLeaderInitiator(client, new DefaultCandidate("me", "cook")));
            context.refresh();
            LeaseholdExtension.await("it is told", () -> events.equals(List.of("OnGrantedEvent cook")));
        }
        assertThat(events).containsExactly("OnGrantedEvent cook", "OnRevokedEvent cook");
        assertThat(client.lock(ELECTION).isLocked()).isFalse();
    }

    @Test
    void whereNobodyAnswersItTriesAgainAndSaysSo() throws Exception {
        List<String> events = new CopyOnWriteArrayList<>();
        try (LeaseholdClient nowhere = LeaseholdClient.builder("http://127.0.0.1:1")
                        .requestTimeout(java.time.Duration.ofMillis(100))
                        .connectTimeout(java.time.Duration.ofMillis(50))
                        .build();
                GenericApplicationContext context = new GenericApplicationContext()) {
            context.addApplicationListener(event -> {
                if (event instanceof AbstractLeaderEvent) {
                    events.add(event.getClass().getSimpleName());
                }
            });
            context.registerBean(LeaseholdLeaderInitiator.class, () -> {
                LeaseholdLeaderInitiator initiator = new LeaseholdLeaderInitiator(nowhere, new DefaultCandidate("me", "cook"));
                initiator.setPublishFailedEvents(true);
                return initiator;
            });
            context.refresh();
            LeaseholdExtension.await(
                    "it has failed twice",
                    () -> events.stream().filter("OnFailedToAcquireMutexEvent"::equals).count() >= 2);
        }
    }
}

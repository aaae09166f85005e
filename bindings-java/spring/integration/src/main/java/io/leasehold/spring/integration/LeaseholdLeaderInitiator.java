package io.leasehold.spring.integration;

import io.leasehold.Guard;
import io.leasehold.LeaseholdClient;
import io.leasehold.LeaseholdElection;
import io.leasehold.LeaseholdException;
import io.leasehold.LockLostException;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.ApplicationEventPublisherAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.DefaultLeaderEventPublisher;
import org.springframework.integration.leader.event.LeaderEventPublisher;

/**
 * Leader election for Spring Integration on an election of etcd, as its initiators for ZooKeeper and Hazelcast are: the candidate
 * stands in a queue, is told when it leads and when no more, and stands again after that. Leaders follow each other at once, without a
 * busy wait, and a leader that is lost is told before anybody else leads.
 *
 * <p>What it proclaims is the id of the candidate, and the election is called as its role, after the prefix: {@code etcdctl elect
 * --listen} and clients of other languages see who leads.
 */
public final class LeaseholdLeaderInitiator implements SmartLifecycle, ApplicationEventPublisherAware {
    private static final System.Logger LOGGER = System.getLogger(LeaseholdLeaderInitiator.class.getName());
    /** Before it stands again where etcd did not answer. */
    private static final Duration PAUSE = Duration.ofSeconds(1);

    private final LeaseholdElection election;
    private final Candidate candidate;

    private LeaderEventPublisher events = new DefaultLeaderEventPublisher();
    private boolean isEventsSet;
    private boolean isAutoStartup = true;
    private boolean publishesFailures;
    private int phase = Integer.MAX_VALUE - 1000;

    private volatile @Nullable Run run;

    /**
     * Of a candidate.
     *
     * @param client the client; it must outlive this
     * @param candidate who wants to lead; its role is the name of the election, after the prefix
     * @param prefix put before the role, such as {@code /spring-integration/}
     */
    public LeaseholdLeaderInitiator(LeaseholdClient client, Candidate candidate, String prefix) {
        this.candidate = Objects.requireNonNull(candidate, "candidate");
        election = client.election(Objects.requireNonNull(prefix, "prefix") + candidate.getRole());
    }

    /**
     * With the prefix {@code /spring-integration/}.
     *
     * @param client the client; it must outlive this
     * @param candidate who wants to lead
     */
    public LeaseholdLeaderInitiator(LeaseholdClient client, Candidate candidate) {
        this(client, candidate, "/spring-integration/");
    }

    /**
     * Who publishes the events.
     *
     * @param publisher by default one that publishes in the application context
     */
    public void setLeaderEventPublisher(LeaderEventPublisher publisher) {
        events = Objects.requireNonNull(publisher, "publisher");
        isEventsSet = true;
    }

    /**
     * Whether an event is published where the candidate cannot stand, as etcd does not answer.
     *
     * @param publishes not by default
     */
    public void setPublishFailedEvents(boolean publishes) {
        publishesFailures = publishes;
    }

    /**
     * Whether it starts with the application.
     *
     * @param starts it does by default
     */
    public void setAutoStartup(boolean starts) {
        isAutoStartup = starts;
    }

    /**
     * When it starts and stops among others.
     *
     * @param phase late to start and early to stop by default
     */
    public void setPhase(int phase) {
        this.phase = phase;
    }

    @Override
    public void setApplicationEventPublisher(ApplicationEventPublisher publisher) {
        if (!isEventsSet) {
            events = new DefaultLeaderEventPublisher(publisher);
        }
    }

    /**
     * The context of the candidate, as it is told.
     *
     * @return whether it leads, and how it ends that
     */
    public Context getContext() {
        Run current = run;
        return current == null ? new Resigned() : current;
    }

    @Override
    public synchronized void start() {
        if (run == null) {
            Run started = new Run();
            run = started;
            started.thread.start();
        }
    }

    /** Resigns if it leads, and stands no more. Returns when the candidate has been told. */
    @Override
    public void stop() {
        Run current;
        synchronized (this) {
            current = run;
            run = null;
        }
        if (current != null) {
            current.stop();
        }
    }

    @Override
    public boolean isRunning() {
        return run != null;
    }

    @Override
    public boolean isAutoStartup() {
        return isAutoStartup;
    }

    @Override
    public int getPhase() {
        return phase;
    }

    /** Who does not run does not lead. */
    private final class Resigned implements Context {
        @Override
        public boolean isLeader() {
            return false;
        }

        @Override
        public void yield() {}

        @Override
        public String getRole() {
            return candidate.getRole();
        }
    }

    /** From a start to a stop: a thread that stands, leads, and stands again. */
    private final class Run implements Context, Runnable {
        final Thread thread = new Thread(this, "leasehold-leader-" + candidate.getRole());
        private volatile boolean isOver;
        /** While it leads: completed when it shall not any more. */
        private volatile @Nullable CompletableFuture<Object> term;
        private volatile @Nullable Guard leading;

        Run() {
            thread.setDaemon(true);
        }

        @Override
        public boolean isLeader() {
            Guard guard = leading;
            return guard != null && guard.held();
        }

        @Override
        public void yield() {
            CompletableFuture<Object> current = term;
            if (current != null) {
                current.complete(this);
            }
        }

        @Override
        public String getRole() {
            return candidate.getRole();
        }

        void stop() {
            isOver = true;
            thread.interrupt();
            if (Thread.currentThread() == thread) {
                return;
            }
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void run() {
            while (!isOver) {
                boolean isWell = true;
                try (Guard guard = election.campaign(candidate.getId())) {
                    isWell = lead(guard);
                } catch (InterruptedException stopped) {
                    // The loop looks whether it was a stop: whatever else interrupts this thread does not end the candidacy.
                } catch (LockLostException lost) {
                    // The candidate has been told.
                } catch (LeaseholdException failure) {
                    failed(failure);
                    isWell = false;
                }
                if (!isWell) {
                    pause();
                }
            }
        }

        /** Leads until that is lost, yielded or stopped. Returns whether the candidate could. */
        private boolean lead(Guard guard) throws InterruptedException {
            CompletableFuture<Object> current = new CompletableFuture<>();
            guard.onLost(current::complete);
            term = current;
            leading = guard;
            try {
                candidate.onGranted(this);
                events.publishOnGranted(LeaseholdLeaderInitiator.this, this, candidate.getRole());
                if (!isOver) {
                    current.get();
                }
                return true;
            } catch (InterruptedException stopped) {
                throw stopped;
            } catch (Throwable thrown) {
                LOGGER.log(System.Logger.Level.WARNING, "the candidate of " + election.name() + " does not lead, as it failed", thrown);
                return false;
            } finally {
                term = null;
                leading = null;
                // What interrupted it was for the leadership, and not for what is done at its end.
                Thread.interrupted();
                revoke();
            }
        }

        /** Tells the candidate before it resigns: nobody else leads until then, unless it was lost. */
        private void revoke() {
            try {
                candidate.onRevoked(this);
                events.publishOnRevoked(LeaseholdLeaderInitiator.this, this, candidate.getRole());
            } catch (Throwable thrown) {
                LOGGER.log(System.Logger.Level.WARNING, "the candidate of " + election.name() + " failed as it was told", thrown);
            }
        }

        private void failed(LeaseholdException failure) {
            if (isOver) {
                return;
            }
            LOGGER.log(System.Logger.Level.WARNING, "the election " + election.name() + ": " + failure.getMessage());
            if (publishesFailures) {
                events.publishOnFailedToAcquire(LeaseholdLeaderInitiator.this, this, candidate.getRole());
            }
        }

        private void pause() {
            if (isOver) {
                return;
            }
            try {
                Thread.sleep(PAUSE.toMillis());
            } catch (InterruptedException stopped) {
                // The loop looks whether it was a stop.
            }
        }
    }
}

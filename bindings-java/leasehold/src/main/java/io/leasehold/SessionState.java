package io.leasehold;

import org.jspecify.annotations.Nullable;

/**
 * How a client's session feels. It can be trusted while it is {@link Health#OK} or {@link Health#SUSPECT}.
 *
 * @param health how it feels
 * @param reason why it was lost; null unless it was
 */
public record SessionState(Health health, @Nullable LostReason reason) {
    /** How a session can feel. */
    public enum Health {
        /** Renewed in time. */
        OK,
        /** A renewal is overdue. Locks are still held: there is time left to stop in good order. */
        SUSPECT,
        /** Over: its guards are lost. The next acquire starts another session. */
        LOST
    }

    static SessionState of(long health, long reason) {
        return new SessionState(
                health == 0 ? Health.OK : health == 1 ? Health.SUSPECT : Health.LOST, LostReason.of((int) reason));
    }
}

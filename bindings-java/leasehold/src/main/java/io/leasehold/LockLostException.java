package io.leasehold;

import org.jspecify.annotations.Nullable;

/**
 * The lock was lost: what it protected may have been done by somebody else meanwhile. Its code is {@link ErrorCode#LOST}.
 *
 * <p>Leaving a scope whose lock was lost throws it, so that nobody takes for done what was done without the lock.
 */
public final class LockLostException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    /** Why it was lost, where that is known. */
    private final @Nullable LostReason reason;

    LockLostException(String message, @Nullable LostReason reason) {
        super(ErrorCode.LOST, message);
        this.reason = reason;
    }

    /**
     * Why it was lost.
     *
     * @return the reason, or null where it is not known
     */
    public @Nullable LostReason reason() {
        return reason;
    }
}

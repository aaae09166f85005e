package io.leasehold;

/** The thread that acquires holds the lock of this name already, and would wait for itself for ever. Its code is {@link ErrorCode#WOULD_DEADLOCK}. */
public final class WouldDeadlockException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    WouldDeadlockException(String message) {
        super(ErrorCode.WOULD_DEADLOCK, message);
    }
}

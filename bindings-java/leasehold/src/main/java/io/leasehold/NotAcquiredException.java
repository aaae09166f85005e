package io.leasehold;

/** The wait limit passed and the lock is still somebody else's. Its code is {@link ErrorCode#NOT_ACQUIRED}. */
public final class NotAcquiredException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    NotAcquiredException(String message) {
        super(ErrorCode.NOT_ACQUIRED, message);
    }
}

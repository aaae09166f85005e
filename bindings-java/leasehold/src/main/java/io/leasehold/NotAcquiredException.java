package io.leasehold;

/** The wait limit passed and the lock is still somebody else's. Its code is {@link ErrorCode#NOT_ACQUIRED}. */
public final class NotAcquiredException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    /**
     * For layers above that wait for a lock in a way of their own.
     *
     * @param message what was waited for, and how long
     */
    public NotAcquiredException(String message) {
        super(ErrorCode.NOT_ACQUIRED, message);
    }
}

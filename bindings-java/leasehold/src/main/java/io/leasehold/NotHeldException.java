package io.leasehold;

/** There is no such hold: it was released before, or nobody has that token. Its code is {@link ErrorCode#NOT_HELD}. */
public final class NotHeldException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    NotHeldException(String message) {
        super(ErrorCode.NOT_HELD, message);
    }
}

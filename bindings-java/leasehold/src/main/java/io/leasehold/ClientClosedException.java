package io.leasehold;

/** The client was closed. Its code is {@link ErrorCode#CLOSED}. */
public final class ClientClosedException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    ClientClosedException(String message) {
        super(ErrorCode.CLOSED, message);
    }
}

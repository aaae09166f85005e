package io.leasehold;

/** The caller cancelled the operation. Its code is {@link ErrorCode#CANCELLED}. */
public final class CancelledException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    CancelledException(String message) {
        super(ErrorCode.CANCELLED, message);
    }
}

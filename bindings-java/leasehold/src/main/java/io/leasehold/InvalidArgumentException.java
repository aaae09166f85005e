package io.leasehold;

/** An argument or option is outside its range; nothing was done. Its code is {@link ErrorCode#INVALID_ARGUMENT}. */
public final class InvalidArgumentException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    InvalidArgumentException(String message) {
        super(ErrorCode.INVALID_ARGUMENT, message);
    }
}

package io.leasehold;

/** No endpoint of etcd could be reached. Its code is {@link ErrorCode#UNAVAILABLE}. */
public final class UnavailableException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    UnavailableException(String message) {
        super(ErrorCode.UNAVAILABLE, message);
    }
}

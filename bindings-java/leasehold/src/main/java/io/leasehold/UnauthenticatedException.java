package io.leasehold;

/** etcd refused the user, the password or the certificate. Its code is {@link ErrorCode#UNAUTHENTICATED}. */
public final class UnauthenticatedException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    UnauthenticatedException(String message) {
        super(ErrorCode.UNAUTHENTICATED, message);
    }
}

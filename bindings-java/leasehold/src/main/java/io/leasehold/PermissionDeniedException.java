package io.leasehold;

/** The roles of the user do not allow this key. Its code is {@link ErrorCode#PERMISSION_DENIED}. */
public final class PermissionDeniedException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    PermissionDeniedException(String message) {
        super(ErrorCode.PERMISSION_DENIED, message);
    }
}

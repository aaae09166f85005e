package io.leasehold;

/** etcd did not answer within the time limit; a write may or may not have taken effect. Its code is {@link ErrorCode#DEADLINE_EXCEEDED}. */
public final class DeadlineExceededException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    DeadlineExceededException(String message) {
        super(ErrorCode.DEADLINE_EXCEEDED, message);
    }
}

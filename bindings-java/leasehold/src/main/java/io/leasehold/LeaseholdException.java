package io.leasehold;

/**
 * What every error of leasehold is: a stable {@link #code()} and a message that says what was wrong and what to do about it.
 * Messages hold no password, token or value of the user's.
 *
 * <p>Codes that programs react to have a class of their own.
 */
public class LeaseholdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The stable code. */
    private final ErrorCode code;

    LeaseholdException(ErrorCode code, String message) {
        super(message);
        this.code = code;
    }

    /**
     * The stable code.
     *
     * @return the code
     */
    public final ErrorCode code() {
        return code;
    }

    @Override
    public String toString() {
        return getClass().getName() + ": " + code + ": " + getMessage();
    }

    /** Makes the exception of an error that the native library tells of. Called by it, too. */
    static RuntimeException of(int number, int reason, String message) {
        ErrorCode code = ErrorCode.of(number);
        switch (code) {
            case NOT_ACQUIRED:
                return new NotAcquiredException(message);
            case CANCELLED:
                return new CancelledException(message);
            case LOST:
                return new LockLostException(message, LostReason.of(reason));
            case NOT_HELD:
                return new NotHeldException(message);
            case WOULD_DEADLOCK:
                return new WouldDeadlockException(message);
            case INVALID_ARGUMENT:
                return new InvalidArgumentException(message);
            case CLOSED:
                return new ClientClosedException(message);
            case UNAVAILABLE:
                return new UnavailableException(message);
            case DEADLINE_EXCEEDED:
                return new DeadlineExceededException(message);
            case UNAUTHENTICATED:
                return new UnauthenticatedException(message);
            case PERMISSION_DENIED:
                return new PermissionDeniedException(message);
            default:
                return new LeaseholdException(code, message);
        }
    }
}

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
        return switch (code) {
            case NOT_ACQUIRED -> new NotAcquiredException(message);
            case CANCELLED -> new CancelledException(message);
            case LOST -> new LockLostException(message, LostReason.of(reason));
            case NOT_HELD -> new NotHeldException(message);
            case WOULD_DEADLOCK -> new WouldDeadlockException(message);
            case INVALID_ARGUMENT -> new InvalidArgumentException(message);
            case CLOSED -> new ClientClosedException(message);
            case UNAVAILABLE -> new UnavailableException(message);
            case DEADLINE_EXCEEDED -> new DeadlineExceededException(message);
            case UNAUTHENTICATED -> new UnauthenticatedException(message);
            case PERMISSION_DENIED -> new PermissionDeniedException(message);
            default -> new LeaseholdException(code, message);
        };
    }
}

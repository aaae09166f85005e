package io.leasehold;

/** The stable number of an error. Numbers and names are the same in every language and are never reused. */
public enum ErrorCode {
    /** The wait limit passed, or a try found the lock taken. */
    NOT_ACQUIRED(10),
    /** The caller cancelled the operation. */
    CANCELLED(11),
    /** The lock was lost: its guard can no longer prove that it holds it. */
    LOST(12),
    /** There is no such hold: released before, or the token is unknown. */
    NOT_HELD(13),
    /** An acquire inside a hold of the same name, by the same thread. */
    WOULD_DEADLOCK(14),
    /** An argument or option is outside its range; nothing was done. */
    INVALID_ARGUMENT(20),
    /** The client was closed. */
    CLOSED(21),
    /** The object belongs to the parent process of a fork. */
    FORKED(22),
    /** No endpoint could be reached. */
    UNAVAILABLE(30),
    /** etcd did not answer within the time limit; a write may or may not have taken effect. */
    DEADLINE_EXCEEDED(31),
    /** etcd refused the user, the password or the certificate. */
    UNAUTHENTICATED(32),
    /** The user's roles do not allow this key. */
    PERMISSION_DENIED(33),
    /** Contenders of one name disagree about its limit. */
    LIMIT_MISMATCH(34),
    /** The server, this build or this machine cannot do that. */
    UNSUPPORTED(35),
    /** etcd is out of space or refuses more requests. */
    RESOURCE_EXHAUSTED(36),
    /** A bug in leasehold; please report it. */
    INTERNAL(99);

    private static final ErrorCode[] ALL = values();

    private final int number;

    ErrorCode(int number) {
        this.number = number;
    }

    /**
     * The number that every language knows.
     *
     * @return the number
     */
    public int number() {
        return number;
    }

    static ErrorCode of(int number) {
        for (ErrorCode code : ALL) {
            if (code.number == number) {
                return code;
            }
        }
        return INTERNAL;
    }
}

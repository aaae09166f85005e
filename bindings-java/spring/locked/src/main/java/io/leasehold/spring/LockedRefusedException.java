package io.leasehold.spring;

/** A method with {@link Locked} that no lock can be put around as it stands. The application does not start. */
public final class LockedRefusedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /** The method. */
    private final String method;

    LockedRefusedException(String method, String why) {
        super("@Locked on " + method + ": " + why);
        this.method = method;
    }

    /**
     * Which method it is about.
     *
     * @return the method, with its class and parameters
     */
    public String method() {
        return method;
    }
}

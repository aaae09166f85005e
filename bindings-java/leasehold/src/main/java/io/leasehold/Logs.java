package io.leasehold;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.concurrent.Executor;

/**
 * The log: {@link System.Logger}, because it needs no dependency and whatever a program logs with can stand behind it
 * (java.util.logging without more ado; SLF4J and Log4j with their adapters for the platform's logging). What stands behind it is
 * foreign code: what it throws ends nothing of ours.
 */
final class Logs {
    private static final Logger LOGGER = System.getLogger("io.leasehold");

    /** Levels as the native library numbers them, from 1 up. */
    private static final Level[] LEVELS = {Level.ERROR, Level.WARNING, Level.INFO, Level.DEBUG, Level.TRACE};

    private static final Executor IN_ORDER = Callbacks.inOrder(Callbacks.reliable(null, null));

    private Logs() {}

    /** The least level that somebody wants to hear; 0 for none. */
    static int level() {
        for (int index = LEVELS.length; index > 0; index--) {
            if (LOGGER.isLoggable(LEVELS[index - 1])) {
                return index;
            }
        }
        return 0;
    }

    /** Writes a record of the core's. On a thread of its own: a log handler may block. */
    static void record(Completion completion) {
        if (completion.kind() == Completion.LOG) {
            Level level = LEVELS[(int) Math.max(1, Math.min(LEVELS.length, completion.a())) - 1];
            String message = Completion.text(completion.first()) + ": " + Completion.text(completion.second());
            IN_ORDER.execute(() -> LOGGER.log(level, message));
        }
    }

    static void warn(String format, Object... parameters) {
        try {
            LOGGER.log(Level.WARNING, format, parameters);
        } catch (Throwable theirs) {
            // Nobody is left to tell.
        }
    }

    static void listenerFailed(Throwable thrown) {
        error("a listener of leasehold's events threw", thrown);
    }

    static void executorFailed(Throwable thrown) {
        error("the executor of a LeaseholdClient threw; what it should have run runs on a thread of leasehold's own", thrown);
    }

    private static void error(String message, Throwable thrown) {
        try {
            LOGGER.log(Level.ERROR, message, thrown);
        } catch (Throwable theirs) {
            // Nobody is left to tell.
        }
    }
}

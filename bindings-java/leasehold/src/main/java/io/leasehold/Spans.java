package io.leasehold;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** Durations as the native library takes them: milliseconds, rounded up so that nothing gets shorter; negative for none. */
final class Spans {
    /** No limit, or the default. */
    static final long NONE = -1;

    private Spans() {}

    static long millis(Duration span, String what) {
        if (span.isNegative()) {
            throw new InvalidArgumentException(what + " must not be negative, as " + span + " is");
        }
        try {
            return span.plusNanos(999_999).toMillis();
        } catch (ArithmeticException centuries) {
            return Long.MAX_VALUE;
        }
    }

    static long millisIfAny(@Nullable Duration span, String what) {
        return span == null ? NONE : millis(span, what);
    }

    /** How long to wait; centuries are for ever. */
    static long wait(Duration limit) {
        long millis = millis(limit, "the wait limit");
        return millis > Duration.ofDays(36_500).toMillis() ? NONE : millis;
    }
}

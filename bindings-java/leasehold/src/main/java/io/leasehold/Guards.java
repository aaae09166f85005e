package io.leasehold;

import java.util.Collection;
import org.jspecify.annotations.Nullable;

/** Several guards at once. */
final class Guards {
    private Guards() {}

    /** Closes all of them; throws what the first one that fails has thrown, with the others' beside it. */
    static void closeAll(Collection<Guard> guards) {
        RuntimeException first = null;
        for (Guard guard : guards) {
            try {
                guard.close();
            } catch (RuntimeException error) {
                first = with(first, error);
            }
        }
        if (first != null) {
            throw first;
        }
    }

    private static RuntimeException with(@Nullable RuntimeException first, RuntimeException another) {
        if (first == null) {
            return another;
        }
        first.addSuppressed(another);
        return first;
    }
}

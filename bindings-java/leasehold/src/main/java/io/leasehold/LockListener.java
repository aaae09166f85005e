package io.leasehold;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Told what becomes of the locks of a client: for meters and logs. Methods are called by the thread that acquires or releases, or
 * by the client's executor; they should be quick, and what they throw is logged and otherwise ignored.
 *
 * <p>Entering a lock again that the thread holds already is no event.
 */
public interface LockListener {
    /**
     * An acquire begins: it asks etcd, and may have to wait. It ends with one call of {@link #acquired} or {@link #failed}.
     *
     * @param name the name of the lock
     * @return who is told, too, what becomes of this acquire and of its hold, and of no other: a span, say. Null is nobody.
     */
    default @Nullable LockListener acquiring(String name) {
        return null;
    }

    /**
     * A lock was acquired.
     *
     * @param name its name
     * @param waited how long that took
     */
    default void acquired(String name, Duration waited) {}

    /**
     * A lock was not acquired.
     *
     * @param name its name
     * @param waited how long it was waited for
     * @param code why: {@link ErrorCode#NOT_ACQUIRED} if it was somebody else's, {@link ErrorCode#CANCELLED} if the caller gave up
     */
    default void failed(String name, Duration waited, ErrorCode code) {}

    /**
     * A hold is over: released or lost, whichever came first; of a loss it is told within seconds. Follows each {@link #acquired}
     * once.
     *
     * @param name its name
     * @param held how long it was held
     * @param lost why it was lost; null if it was released in time
     */
    default void ended(String name, Duration held, @Nullable LostReason lost) {}
}

package io.leasehold.spring.boot;

import io.leasehold.Contender;
import io.leasehold.LeaseholdClient;
import io.leasehold.NotHeldException;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.annotation.DeleteOperation;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;

/**
 * The locks, for operators: {@code GET /actuator/locks} tells what this application holds and waits for, {@code ?name=…} who holds and who waits, and
 * {@code DELETE ?name=…&token=…} takes a lock away from whoever has it (only with {@code
 * management.endpoint.locks.access=unrestricted}).
 */
@Endpoint(id = "locks", defaultAccess = Access.READ_ONLY)
public final class LocksEndpoint {
    private final LeaseholdClient client;
    private final HeldLocks held;

    LocksEndpoint(LeaseholdClient client, HeldLocks held) {
        this.client = client;
        this.held = held;
    }

    /**
     * What this application holds and asks for.
     *
     * @param identity who it is in queues
     * @param held the names of locks that it holds, and how many holds of each
     * @param waiting the names of locks that it waits for, and how many acquires of each
     */
    public record Held(String identity, Map<String, Integer> held, Map<String, Integer> waiting) {}

    /**
     * Who wants one lock.
     *
     * @param name its name, without the namespace
     * @param queue everybody in its queue, in order
     */
    public record Queue(String name, List<Contender> queue) {}

    /**
     * Tells what this application holds and waits for, or who is in the queue of a lock. Asks etcd for the latter.
     *
     * @param name the lock, if it is about one
     * @return {@link Held} or {@link Queue}
     */
    @ReadOperation
    public Object locks(@Nullable String name) {
        return name == null ? new Held(client.identity(), held.names(), held.acquiring()) : new Queue(name, client.lock(name).queue());
    }

    /**
     * Takes a lock, or a place in its queue, away from whoever has it. The owner may still be at work: only fencing tokens keep its
     * late writes out.
     *
     * @param name the lock
     * @param token the token of the contender, as {@link #locks} tells it
     * @return whether there was such a contender
     */
    @DeleteOperation
    public Map<String, Boolean> forceRelease(String name, long token) {
        try {
            client.lock(name).forceRelease(token);
            return Map.of("released", true);
        } catch (NotHeldException gone) {
            return Map.of("released", false);
        }
    }
}

package io.leasehold.spring.boot;

import io.leasehold.ErrorCode;
import io.leasehold.LockListener;
import io.leasehold.LostReason;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The meters of a client: {@code leasehold.acquire} (timer, tag {@code outcome}), {@code leasehold.hold} (timer) and {@code
 * leasehold.lost} (counter, tag {@code reason}). Gauges are registered beside it.
 */
final class LeaseholdMeters implements LockListener {
    private final MeterRegistry registry;
    private final boolean names;

    LeaseholdMeters(MeterRegistry registry, boolean names) {
        this.registry = registry;
        this.names = names;
        if (!names) {
            // There from the start, at 0: an alert on what does not exist yet says nothing.
            for (LostReason reason : LostReason.values()) {
                lost(Tags.empty(), reason);
            }
        }
    }

    @Override
    public void acquired(String name, Duration waited) {
        acquire(name, "acquired", waited);
    }

    @Override
    public void failed(String name, Duration waited, ErrorCode code) {
        acquire(name, outcome(code), waited);
    }

    /** What came of an acquire that got no lock, as a tag. */
    static String outcome(ErrorCode code) {
        return switch (code) {
            case NOT_ACQUIRED -> "busy";
            case CANCELLED -> "cancelled";
            case LOST -> "lost";
            default -> "error";
        };
    }

    @Override
    public void ended(String name, Duration held, @Nullable LostReason lost) {
        Timer.builder("leasehold.hold")
                .description("How long locks were held")
                .tags(tags(name))
                .register(registry)
                .record(held);
        if (lost != null) {
            lost(tags(name), lost).increment();
        }
    }

    private Counter lost(Tags tags, LostReason reason) {
        return Counter.builder("leasehold.lost")
                .description("Locks that were lost while they were held")
                .tags(tags.and("reason", reason.name().toLowerCase(Locale.ROOT)))
                .register(registry);
    }

    private void acquire(String name, String outcome, Duration waited) {
        Timer.builder("leasehold.acquire")
                .description("How long it took to get a lock, or not to get it")
                .tags(tags(name).and("outcome", outcome))
                .register(registry)
                .record(waited);
    }

    private Tags tags(String name) {
        return names ? Tags.of("name", name) : Tags.empty();
    }
}

package io.leasehold.spring.boot;

import io.leasehold.ErrorCode;
import io.leasehold.LockListener;
import io.leasehold.LostReason;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.time.Duration;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Each acquire and each hold as an observation, and so as a span of a trace: {@code leasehold.lock.acquire} (with {@code outcome}) and
 * {@code leasehold.lock.hold} (with {@code lost}). Both are children of what was observed where the acquire began; the name of the
 * lock is a tag of spans only.
 */
final class LeaseholdObservations implements LockListener {
    private final ObservationRegistry registry;

    LeaseholdObservations(ObservationRegistry registry) {
        this.registry = registry;
    }

    @Override
    public @Nullable LockListener acquiring(String name) {
        Observation acquire = observation("leasehold.lock.acquire", "acquire lock", name);
        if (acquire.isNoop()) {
            return null;
        }
        Observation parent = registry.getCurrentObservation();
        acquire.start();
        return new Told(name, parent, acquire);
    }

    private Observation observation(String meter, String span, String name) {
        return Observation.createNotStarted(meter, registry)
                .contextualName(span)
                .highCardinalityKeyValue("leasehold.lock", name);
    }

    /** Of one acquire and its hold. The methods are called one after the other, by whatever threads. */
    private final class Told implements LockListener {
        private final String name;
        private final @Nullable Observation parent;
        private final Observation acquire;
        private volatile @Nullable Observation hold;

        Told(String name, @Nullable Observation parent, Observation acquire) {
            this.name = name;
            this.parent = parent;
            this.acquire = acquire;
        }

        @Override
        public void acquired(String lock, Duration waited) {
            acquire.lowCardinalityKeyValue("outcome", "acquired").stop();
            hold = observation("leasehold.lock.hold", "hold lock", name).parentObservation(parent).start();
        }

        @Override
        public void failed(String lock, Duration waited, ErrorCode code) {
            acquire.lowCardinalityKeyValue("outcome", LeaseholdMeters.outcome(code)).stop();
        }

        @Override
        public void ended(String lock, Duration held, @Nullable LostReason lost) {
            Observation begun = hold;
            if (begun != null) {
                begun.lowCardinalityKeyValue("lost", lost == null ? "none" : lost.name().toLowerCase(Locale.ROOT)).stop();
            }
        }
    }
}

package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;

/** A bean of this kind changes the options of the client, after the properties were applied. */
@FunctionalInterface
public interface LeaseholdClientBuilderCustomizer {
    /**
     * Changes options.
     *
     * @param builder the options so far
     */
    void customize(LeaseholdClient.Builder builder);
}

package io.leasehold;

import java.util.Optional;

/**
 * What an observer of an election sees.
 *
 * @param leader who leads now; empty while nobody does
 * @param afterGap whether other changes may have come between this one and the one before: the connection to etcd was lost
 *     meanwhile, or the observer did not listen for more than 1,024 changes or 4 MiB
 */
public record Observed(Optional<Leader> leader, boolean afterGap) {}

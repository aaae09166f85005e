/** Locks for Project Reactor: {@link io.leasehold.reactor.ReactiveLock}. */
@org.jspecify.annotations.NullMarked
package io.leasehold.reactor;

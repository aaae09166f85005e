/** Locks for Spring applications: {@link io.leasehold.spring.Locked} and what carries it out. */
@org.jspecify.annotations.NullMarked
package io.leasehold.spring;

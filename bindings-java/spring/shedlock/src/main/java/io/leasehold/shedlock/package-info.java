/** Locks on etcd for ShedLock. */
@org.jspecify.annotations.NullMarked
package io.leasehold.shedlock;

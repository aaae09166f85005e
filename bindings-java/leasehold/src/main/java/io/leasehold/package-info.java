/**
 * A distributed lock for etcd: leases renewed in time, waiters in the order of their revisions, fencing tokens.
 *
 * <p>A {@link io.leasehold.LeaseholdClient} makes {@link io.leasehold.LeaseholdLock}s. A lock is a {@link
 * java.util.concurrent.locks.Lock} whose owner is a thread, and it gives {@link io.leasehold.Guard}s, which are owned by whoever
 * has them.
 *
 * <pre>{@code
 * try (LeaseholdClient client = LeaseholdClient.connect("http://127.0.0.1:2379")) {
 *   LeaseholdLock lock = client.lock("/lock/mylock");
 *   try (Guard guard = lock.acquire(Duration.ofSeconds(5))) {
 *     write(guard.token());
 *   }
 * }
 * }</pre>
 *
 * <p>Everything here may be used by any number of threads, virtual ones included: whoever waits, waits parked. Errors are
 * unchecked {@link io.leasehold.LeaseholdException}s with a stable {@link io.leasehold.ErrorCode}.
 */
@NullMarked
package io.leasehold;

import org.jspecify.annotations.NullMarked;

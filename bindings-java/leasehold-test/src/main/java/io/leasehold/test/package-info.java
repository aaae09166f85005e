/** For the tests of programs that lock: {@link io.leasehold.test.LeaseholdExtension}. */
@org.jspecify.annotations.NullMarked
package io.leasehold.test;

/** Locks on etcd for Spring Integration. */
@org.jspecify.annotations.NullMarked
package io.leasehold.spring.integration;

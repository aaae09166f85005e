/** Auto-configuration for Spring Boot: the client, its properties, its health and its meters. */
@org.jspecify.annotations.NullMarked
package io.leasehold.spring.boot;

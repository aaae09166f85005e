package io.leasehold;

/** A listener that was added; closing this removes it again. */
@FunctionalInterface
public interface Subscription extends AutoCloseable {
    /** Removes the listener. Doing it twice is no error. What is on its way may still arrive. */
    @Override
    void close();
}

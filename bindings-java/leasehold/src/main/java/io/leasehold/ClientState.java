package io.leasehold;

import org.jspecify.annotations.Nullable;

/** What of a client outlives its object. It frees the native one if it was closed, and complains if it was not. */
final class ClientState implements Runnable {
    final String url;
    volatile boolean isClosed;
    private final long handle;
    /** Where it waits for results; null before the first operation and after the end. */
    private volatile @Nullable Dispatcher dispatcher;

    ClientState(long handle, String url) {
        this.handle = handle;
        this.url = url;
    }

    /** Keeps the dispatcher running from the first operation on. */
    void join() {
        if (dispatcher == null) {
            synchronized (this) {
                if (dispatcher == null && !isClosed) {
                    dispatcher = Dispatcher.retain();
                }
            }
        }
    }

    /** It is closed: whoever joins from here on sees that. */
    synchronized void leave() {
        Dispatcher joined = dispatcher;
        dispatcher = null;
        if (joined != null) {
            joined.release();
        }
    }

    /** The client's object is gone. */
    @Override
    public void run() {
        if (isClosed || dispatcher == null) {
            Native.clientFree(handle);
        } else {
            Logs.warn(
                    "a LeaseholdClient ({0}) was forgotten without close(): what it holds stays locked until this process ends",
                    url);
            // Nobody can wait for a result of it any more: it keeps no thread, and so no class loader.
            leave();
        }
    }
}

package io.leasehold;

/** Who waits for what an operation brings. Called by the dispatcher thread: must neither block nor run code of users. */
interface Receiver {
    /** The operation runs, under this id; called by the thread that started it, perhaps after its completion. */
    void started(long operation);

    /** Takes one result. */
    void take(Completion completion);
}

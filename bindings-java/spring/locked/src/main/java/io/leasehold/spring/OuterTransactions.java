package io.leasehold.spring;

import io.leasehold.LeaseholdLock;
import io.leasehold.LockLostException;
import org.springframework.core.Ordered;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** The transaction that this thread is in already. A class of its own, because an application need not have transactions. */
final class OuterTransactions {
    private static final System.Logger LOGGER = System.getLogger(OuterTransactions.class.getName());

    private OuterTransactions() {}

    static boolean isActive() {
        return TransactionSynchronizationManager.isActualTransactionActive()
                && TransactionSynchronizationManager.isSynchronizationActive();
    }

    /** Releases the lock of this thread when the transaction has ended, which it does not with a commit if the lock is lost. */
    static void releaseAtTheEnd(LeaseholdLock lock) {
        TransactionSynchronizationManager.registerSynchronization(new End(lock));
    }

    private record End(LeaseholdLock lock) implements TransactionSynchronization {
        /** After everybody else's. */
        @Override
        public int getOrder() {
            return Ordered.LOWEST_PRECEDENCE;
        }

        @Override
        public void beforeCommit(boolean readOnly) {
            if (!lock.isHeldByCurrentThread()) {
                // Throws, because the lock is lost; what it counts is left at once by the end.
                lock.lock();
                lock.unlock();
            }
        }

        @Override
        public void afterCompletion(int status) {
            try {
                lock.unlock();
            } catch (LockLostException lost) {
                if (status != STATUS_ROLLED_BACK) {
                    LOGGER.log(System.Logger.Level.WARNING, "the lock " + lock.name() + " was lost while its transaction committed",
                            lost);
                }
            }
        }
    }
}

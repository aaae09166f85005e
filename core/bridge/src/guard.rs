//! A guard as a host sees it: shared by threads, released once, safe to free while it is in use.

use std::{sync::Arc, time::Duration};

use crate::{
    completion::{Outcome, Sink},
    live::{self, Counted},
    operation::{self, Cancel, OpId},
};

/// A guard; see [`leasehold::Guard`] for what its operations do and which errors they bring.
///
/// Dropped without [`Guard::release`] it releases in the background, as a guard that nobody took must; for a guard that a host
/// forgot there is [`Guard::abandon`].
#[derive(Debug)]
pub struct Guard {
    core: Arc<leasehold::Guard>,
    /// Cancelled when it is released: ends the wait for a loss.
    released: Cancel,
    _counted: Counted,
}

/// One operation of a guarded transaction. Keys stand below the client's namespace.
#[derive(Clone, Debug)]
pub enum TxnOp {
    /// Writes a value.
    Put {
        /// Where to.
        key: Vec<u8>,
        /// What.
        value: Vec<u8>,
    },
    /// Deletes a key.
    Delete {
        /// Which.
        key: Vec<u8>,
    },
    /// Reads a key.
    Get {
        /// Which.
        key: Vec<u8>,
    },
}

impl Guard {
    pub(crate) fn new(core: leasehold::Guard) -> Self {
        Self { core: Arc::new(core), released: Cancel::new(), _counted: Counted::new(&live::GUARDS) }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// The fencing token.
    pub fn token(&self) -> i64 {
        self.core.token()
    }

    /// Tells holds apart that share a token; 0 for this kind of lock.
    pub fn sequence(&self) -> u64 {
        self.core.sequence()
    }

    /// The key in etcd, namespace included.
    pub fn key(&self) -> String {
        self.core.key()
    }

    /// The lease, in lower-case hexadecimal.
    pub fn lease(&self) -> String {
        self.core.lease()
    }

    /// Whether the lock is certainly still held. Asks nobody.
    pub fn is_held(&self) -> bool {
        self.core.is_held()
    }

    /// Whether it was released.
    pub fn is_released(&self) -> bool {
        self.core.is_released()
    }

    /// How long it is certainly still held if no renewal succeeds from now on.
    pub fn remaining(&self) -> Duration {
        self.core.remaining()
    }

    /// Releases the lock. Whoever comes second is told [`leasehold::Code::NotHeld`].
    pub fn release(&self, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let (core, released) = (self.core.clone(), self.released.clone());
        operation::start(sink, cancel, |cancel| async move {
            let result = cancel.or_cancelled(core.release_shared()).await;
            // After it: a loss that the release finds is told as a loss.
            released.cancel();
            result.map(|()| Outcome::Done)
        })
    }

    /// Makes the hold last at least `span` from now.
    pub fn extend(&self, span: Duration, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core.clone();
        operation::start(sink, cancel, |cancel| async move {
            cancel.or_cancelled(core.extend(span)).await?;
            Ok(Outcome::Done)
        })
    }

    /// Writes `value` under `key` if the lock is still held; brings [`Outcome::Revision`].
    pub fn put(&self, key: Vec<u8>, value: Vec<u8>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core.clone();
        operation::start(sink, cancel, |cancel| async move {
            Ok(Outcome::Revision(cancel.or_cancelled(core.put(key, value)).await?))
        })
    }

    /// Deletes `key` if the lock is still held; brings [`Outcome::Flag`], whether it existed.
    pub fn delete(&self, key: Vec<u8>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core.clone();
        operation::start(sink, cancel, |cancel| async move {
            Ok(Outcome::Flag(cancel.or_cancelled(core.delete(key)).await?))
        })
    }

    /// Reads and writes in one transaction if the lock is still held; brings [`Outcome::Committed`].
    pub fn txn(&self, ops: Vec<TxnOp>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core.clone();
        operation::start(sink, cancel, |cancel| async move {
            let txn = ops.into_iter().fold(core.txn(), |txn, op| match op {
                TxnOp::Put { key, value } => txn.put(key, value),
                TxnOp::Delete { key } => txn.delete(key),
                TxnOp::Get { key } => txn.get(key),
            });
            Ok(Outcome::Committed(cancel.or_cancelled(txn.commit()).await?))
        })
    }

    /// Waits for the end of the hold: brings [`Outcome::Lost`], or [`Outcome::Released`].
    pub fn lost(&self, sink: Sink) -> OpId {
        let (lost, released) = (self.core.lost(), self.released.clone());
        operation::start(sink, None, |cancel| async move {
            let end = async {
                tokio::select! {
                    biased;
                    reason = lost => Ok(Outcome::Lost(reason)),
                    () = released.cancelled() => Ok(Outcome::Released),
                }
            };
            cancel.or_cancelled(end).await
        })
    }

    /// Leaves the lock held, and renewed, until the client is closed: for hosts whose user forgot the guard. Whether the work
    /// that it protects is over, nobody knows.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.released.cancel();
    }
}

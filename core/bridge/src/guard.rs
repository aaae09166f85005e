//! A guard as a host sees it: shared by threads, released once, safe to free while it is in use.

use std::{sync::Arc, time::Duration};

use leasehold::{End, LostReason};

use crate::{
    client::Client,
    completion::{Outcome, Sink},
    fork::OfProcess,
    live::{self, Counted},
    operation::{self, Cancel, OpId},
    panics,
};

/// A guard; see [`leasehold::Guard`] for what its operations do and which errors they bring.
///
/// Dropped without [`Guard::release`] it releases in the background, as a guard that nobody took must; for a guard that a host
/// forgot there is [`Guard::abandon`].
#[derive(Debug)]
pub struct Guard {
    /// Shared by its operations: whichever is the last to need it releases the lock, if nothing else has.
    core: OfProcess<Arc<leasehold::Guard>>,
    /// Its host may have let go of it; what closes all clients must find it.
    _client: Option<Arc<Client>>,
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
    pub(crate) fn new(core: leasehold::Guard, client: Option<Arc<Client>>) -> Self {
        Self { core: OfProcess::new(Arc::new(core)), _client: client, _counted: Counted::new(&live::GUARDS) }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// The fencing token.
    pub fn token(&self) -> i64 {
        self.core.token()
    }

    /// Tells holds apart that share a token; 0 unless the lock is local-first or lingers.
    pub fn sequence(&self) -> u64 {
        self.core.sequence()
    }

    /// The key in etcd, namespace included.
    pub fn key(&self) -> String {
        self.core.key()
    }

    /// The keys in etcd, in the order in which the names were asked for.
    pub fn keys(&self) -> Vec<String> {
        self.core.keys()
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

    /// Why the lock is not held any more; `None` while it is, and if it was released in time. Asks nobody.
    pub fn loss_reason(&self) -> Option<LostReason> {
        self.core.loss_reason()
    }

    /// Releases the lock. Whoever comes second is told [`Code::NotHeld`](leasehold::Code::NotHeld). Cancelled, it goes on in the background.
    pub fn release(&self, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start_release(sink, cancel, |pending| {
            core.release_then(move |result| {
                panics::contain(|| pending.complete(result.map(|()| Outcome::Done)));
            });
        })
    }

    /// Makes the hold last at least `span` from now.
    pub fn extend(&self, span: Duration, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start(sink, cancel, |stop| async move {
            stop.or(core.extend(span)).await?;
            Ok(Outcome::Done)
        })
    }

    /// Proclaims `value` if this guard still leads its election.
    pub fn proclaim(&self, value: Vec<u8>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start(sink, cancel, |stop| async move {
            stop.or(core.proclaim(value)).await?;
            Ok(Outcome::Done)
        })
    }

    /// Writes `value` under `key` if the lock is still held; brings [`Outcome::Revision`].
    pub fn put(&self, key: Vec<u8>, value: Vec<u8>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start(
            sink,
            cancel,
            |stop| async move { Ok(Outcome::Revision(stop.or(core.put(key, value)).await?)) },
        )
    }

    /// Deletes `key` if the lock is still held; brings [`Outcome::Flag`], whether it existed.
    pub fn delete(&self, key: Vec<u8>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start(sink, cancel, |stop| async move { Ok(Outcome::Flag(stop.or(core.delete(key)).await?)) })
    }

    /// Reads and writes in one transaction if the lock is still held; brings [`Outcome::Committed`].
    pub fn txn(&self, ops: Vec<TxnOp>, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core();
        operation::start(sink, cancel, |stop| async move {
            let txn = ops.into_iter().fold(core.txn(), |txn, op| match op {
                TxnOp::Put { key, value } => txn.put(key, value),
                TxnOp::Delete { key } => txn.delete(key),
                TxnOp::Get { key } => txn.get(key),
            });
            Ok(Outcome::Committed(stop.or(txn.commit()).await?))
        })
    }

    /// Waits for the end of the hold: brings [`Outcome::Lost`], or [`Outcome::Released`].
    pub fn ended(&self, sink: Sink) -> OpId {
        // In a forked child nothing of the parent's is waited for.
        let ended = self.core.is_ours().then(|| self.core.ended());
        operation::start(sink, None, |stop| async move {
            let Some(ended) = ended else { return Ok(Outcome::Lost(LostReason::Forked)) };
            Ok(match stop.or(async { Ok(ended.await) }).await? {
                End::Lost(reason) => Outcome::Lost(reason),
                _ => Outcome::Released,
            })
        })
    }

    /// Leaves the lock held, and renewed, until the client is closed: for hosts whose user forgot the guard. Whether the work
    /// that it protects is over, nobody knows.
    pub fn abandon(self) {
        std::mem::forget(self);
    }

    fn core(&self) -> Arc<leasehold::Guard> {
        Arc::clone(&self.core)
    }
}

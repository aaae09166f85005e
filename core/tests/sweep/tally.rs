//! What a client asked its etcd, counted by kind, and the one thing that is to go wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::store::{LeaseId, Op, Request, Txn};
use tokio::sync::watch;

use crate::party::Door;

/// What can be counted, and go wrong, on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Grant,
    Enqueue,
    Try,
    /// Deletes keys of known create revisions: a release, or a withdrawal.
    Delete,
    /// Deletes a key that may stand, or not.
    Clean,
    Read,
    /// Lists the keys of a lease.
    Sweep,
    Revoke,
    RenewalRequest,
    RenewalReply,
    WatchRequest,
    WatchReply,
}

impl Kind {
    pub fn of(request: &Request) -> Self {
        match request {
            Request::LeaseGrant { .. } => Self::Grant,
            Request::LeaseRevoke { .. } => Self::Revoke,
            Request::LeaseTimeToLive { .. } => Self::Sweep,
            Request::Range(_) => Self::Read,
            Request::Txn(txn) => Self::of_txn(txn),
        }
    }

    fn of_txn(txn: &Txn) -> Self {
        match txn.then.first() {
            // A try looks at the whole range, an enqueue at its own key.
            Some(Op::Put { .. }) if txn.conditions.iter().any(|condition| condition.keys.end.is_some()) => Self::Try,
            Some(Op::Put { .. }) => Self::Enqueue,
            Some(Op::Delete(_)) if txn.conditions.is_empty() => Self::Clean,
            Some(Op::Delete(_)) => Self::Delete,
            // Several that share a transaction: whoever joins is waited for.
            Some(Op::Txn(_)) => {
                let inner = |op: &Op| if let Op::Txn(txn) = op { Some(Self::of_txn(txn)) } else { None };
                txn.then.iter().filter_map(inner).min().unwrap_or(Self::Delete)
            }
            Some(Op::Range(_)) | None => Self::Read,
        }
    }

    /// Every fault that is something else than the ones before it for this kind, at this door.
    pub fn faults(self, door: &Door) -> Vec<Fault> {
        use Fault::{Broken, LateReply, LateRequest, Lost, Refused, Silent};
        match self {
            Self::RenewalRequest | Self::WatchRequest => vec![Lost, LateRequest(SOON), LateRequest(LATE)],
            Self::RenewalReply | Self::WatchReply => vec![Lost, Broken, Silent, LateReply(SOON), LateReply(LATE)],
            _ => {
                // To the store, a reply that is late by less is the same; to a connection, no request is ever refused.
                let last = if matches!(door, Door::Store) { Refused } else { LateReply(SOON) };
                vec![Lost, Broken, LateReply(LATE), LateRequest(SOON), LateRequest(LATE), last]
            }
        }
    }
}

/// After one attempt was given up, and before the operation is.
const SOON: Duration = Duration::from_millis(450);
/// After the operation was given up, too, and longer than the TTL.
pub const LATE: Duration = Duration::from_millis(2_500);

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It arrives and takes effect; the answer does not, or too late: to the caller a store's time-out is the same. On a
    /// stream, this one message is missing.
    Lost,
    /// As `Lost`, but the caller learns at once that the connection broke. On a stream, the stream ends.
    Broken,
    /// Nothing comes on the stream any more, although it stands.
    Silent,
    /// The answer is delivered so much later, however long the caller wanted to wait. On a stream, what follows waits behind it.
    LateReply(Duration),
    /// The caller is told of a time-out; so long after its start the request reaches etcd all the same.
    LateRequest(Duration),
    /// The connection is refused: nothing was sent.
    Refused,
}

/// A fault and where it hits: the n-th of its kind, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    pub kind: Kind,
    pub number: usize,
    pub fault: Fault,
}

/// The books of one client.
#[derive(Debug, Default)]
pub struct Tally {
    planted: Mutex<Option<Planted>>,
    asked: Mutex<BTreeMap<Kind, usize>>,
    answered: Mutex<BTreeMap<Kind, usize>>,
    leases: Mutex<BTreeSet<LeaseId>>,
    /// Requests that their caller has given up, or may have, and that etcd has not answered yet.
    under_way: watch::Sender<usize>,
}

impl Tally {
    /// Counts one; the fault that hits it.
    pub fn ask(&self, kind: Kind) -> Option<Fault> {
        let number = count(&self.asked, kind);
        let mut planted = self.planted.lock().unwrap();
        let hit = planted.take_if(|planted| planted.kind == kind && planted.number == number);
        hit.map(|planted| planted.fault)
    }

    /// What the client was told, a failure or not.
    pub fn answer(&self, kind: Kind) {
        count(&self.answered, kind);
    }

    pub fn note_lease(&self, request: &Request) {
        if let Request::LeaseGrant { lease, .. } = request {
            self.leases.lock().unwrap().insert(*lease);
        }
    }

    /// Plants a fault, in place of one that has not hit yet.
    pub fn plant(&self, planted: Planted) {
        *self.planted.lock().unwrap() = Some(planted);
    }

    /// Plants `fault` for the next of `kind`.
    pub fn plant_next(&self, kind: Kind, fault: Fault) {
        self.plant(Planted { kind, number: self.asked(kind) + 1, fault });
    }

    /// Whether nothing is left to go wrong.
    pub fn has_hit(&self) -> bool {
        self.planted.lock().unwrap().is_none()
    }

    pub fn asked(&self, kind: Kind) -> usize {
        self.asked.lock().unwrap().get(&kind).copied().unwrap_or(0)
    }

    pub fn all_asked(&self) -> BTreeMap<Kind, usize> {
        self.asked.lock().unwrap().clone()
    }

    pub fn answered(&self, kind: Kind) -> usize {
        self.answered.lock().unwrap().get(&kind).copied().unwrap_or(0)
    }

    /// Every lease that the client ever asked for.
    pub fn leases(&self) -> Vec<LeaseId> {
        self.leases.lock().unwrap().iter().copied().collect()
    }

    /// Waits until etcd has got all that was sent late.
    pub async fn settled(&self) {
        self.under_way.subscribe().wait_for(|count| *count == 0).await.expect("the tally holds the sender");
    }

    pub fn set_out(self: &Arc<Self>) -> UnderWay {
        self.under_way.send_modify(|count| *count += 1);
        UnderWay(self.clone())
    }
}

/// A request that goes its own way.
pub struct UnderWay(Arc<Tally>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

fn count(counts: &Mutex<BTreeMap<Kind, usize>>, kind: Kind) -> usize {
    let mut counts = counts.lock().unwrap();
    let count = counts.entry(kind).or_default();
    *count += 1;
    *count
}

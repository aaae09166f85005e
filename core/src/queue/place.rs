//! A place: one key of ours in one queue, and its life. Who wants it, and for how long, is the hub's affair.
//!
//! ```text
//!            a try, deletes of ours on the way
//!    Blocked <------ joins                                  nothing in its way: by the reply, or in the complete order
//!       |              |           the key stands              |
//!       +------> Sending ------------------------> Waiting ----+---> Admitted
//!                 |   ^                               |                 |  withdrawn, released
//!          failed |   | sent again                    +-----------------+------> Leaving -- deleted --> Gone
//!                 v   |                                                                the order has seen it: forgotten
//!                Unsent
//! ```
//!
//! A place whose key vanished, or whose lease is over, is forgotten at once: whoever wants another one makes another place.

use std::sync::Arc;

use super::{admission::Claim, view::Position};
use crate::{
    clock::Moment,
    store::{Key, LeaseId},
    terms::Mode,
};

/// What a place is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entrant {
    /// The lease that its key is attached to.
    pub lease: LeaseId,
    /// What it claims.
    pub claim: Claim,
    /// Whether its key is written only where nobody stands.
    pub mode: Mode,
    /// How many places are put with it, itself included: all or none.
    pub company: usize,
    /// The value of its key.
    pub value: Arc<[u8]>,
}

/// How far a place has come; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// A try that waits until all keys of ours are deleted that had left up to then: it must not lose to our own release.
    Blocked(u64),
    /// The transaction that writes the key is on its way.
    Sending {
        /// Whether the place was left meanwhile: once the reply is here, the key goes.
        is_withdrawn: bool,
    },
    /// No transaction is on its way, and the key is not known to stand.
    Unsent,
    /// The key stands, and it is not its turn.
    Waiting,
    /// It is its turn, since then.
    Admitted(Moment),
    /// The key is to be deleted; it was the so-and-so-many-th of its queue to leave. The place counts as gone.
    Leaving(u64),
    /// The key was deleted at that revision; remembered until the order has seen it.
    Gone(i64),
}

/// How a place came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Departure {
    /// Its key never stood, as far as anybody knows.
    Unjoined,
    /// Its key was deleted.
    Deleted,
    /// Its key was not there any more when it was to be deleted.
    Missing,
    /// Its key went with its lease, or will.
    WithLease,
}

/// One key of ours in one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its key.
    pub key: Key,
    /// The number in that key.
    pub number: u64,
    /// The create revision of its key, once known: the fencing token of its hold.
    pub revision: i64,
    /// What it was made of; the value is dropped once the key stands.
    pub entrant: Entrant,
    /// How far it has come.
    pub life: Life,
    /// Counts the transactions sent.
    pub attempts: u32,
    /// The highest revision that was seen before the first of them.
    pub seen: i64,
    /// Whether the fate of one of those transactions is unknown.
    pub is_ambiguous: bool,
    /// A try among others that it can be held beside, or among too many nested names to step around: it queues, and is refused
    /// unless it is admitted.
    pub is_impatient: bool,
    /// Nested names that a try has to step around.
    pub nested: Vec<Key>,
}

impl Place {
    /// A place that has done nothing yet, where etcd told of `seen` so far.
    pub fn new(key: Key, number: u64, entrant: Entrant, seen: i64) -> Self {
        Self {
            key,
            number,
            revision: 0,
            entrant,
            life: Life::Unsent,
            attempts: 0,
            seen,
            is_ambiguous: false,
            is_impatient: false,
            nested: Vec::new(),
        }
    }

    /// Whether its key counts as gone although it may still stand.
    pub fn has_left(&self) -> bool {
        matches!(self.life, Life::Leaving(_) | Life::Gone(_))
    }

    /// Whether an attempt whose fate is unknown may be what created its key at `revision`. Nobody else may have.
    pub fn may_have_written(&self, revision: i64) -> bool {
        self.is_ambiguous && revision > self.seen
    }

    /// Where it stands, once it does.
    pub fn position(&self) -> Position {
        (self.revision, self.key.clone())
    }

    /// Whether its key is written only where nobody stands.
    pub fn tries(&self) -> bool {
        self.entrant.mode == Mode::Try && !self.is_impatient
    }

    /// Whether its key stands, as far as we know, and is wanted.
    pub fn stands(&self) -> bool {
        matches!(self.life, Life::Waiting | Life::Admitted(_))
    }
}

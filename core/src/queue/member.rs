//! One of our contenders in a queue: what its caller asked for, and how far it has come.
//!
//! ```text
//!            a key is assigned              the reply lists nobody else, or a try found the queue empty
//!  Unkeyed ------------------> Sending ---------------------------------------------> Held
//!     ^   \ a try, deletes of     | ^ \                                                ^ |
//!     |    \ ours on the way      | |  \ the key stands                                | | released
//!     |     +-----> Blocked ------+ |   +------------> Waiting -- the head of the -----+ |
//!     |                             |                  |  |        complete view         |
//!     |        failed, may work     v                  |  | cancelled, limit passed      v
//!     |        the next time     Backoff               |  +-------------------------> Leaving -- deleted --> Gone
//!     +-- session lost, key vanished (policy requeue) -+                                      the view has seen it: forgotten
//! ```

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    clock::Moment,
    error::Error,
    store::{Key, LeaseId},
};

/// One of our contenders: an acquire and, once it won, its hold. Chosen by the caller, unique within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One session of a client. Unique within a client; a session that replaces a lost one has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Whether an acquire queues or only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Queue and wait for the turn.
    Wait,
    /// Take the lock if nobody has it.
    Try,
}

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Wait or try.
    pub mode: Mode,
    /// Queue again under a new key when the old one dies while waiting; otherwise fail.
    pub requeue: bool,
    /// When the wait ends without the lock.
    pub limit: Option<Moment>,
    /// When an acquire that could not even join the queue fails.
    pub join_by: Moment,
    /// The value of the contender's key: metadata for people.
    pub value: Arc<[u8]>,
}

/// What is owed to the caller when a contender leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The acquire failed with this error.
    Failed(Error),
    /// The hold was released.
    Released,
    /// Nothing: it was told already.
    Told,
}

/// How far a contender has come; see the diagram above.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Has no key yet: its session has no lease, or lost it.
    Unkeyed,
    /// A try that waits until these contenders of ours are deleted: it must not lose to our own release.
    Blocked(BTreeSet<Ticket>),
    /// The transaction is on its way.
    Sending {
        /// Set when the caller gave up meanwhile: what it is told once the reply is here.
        ending: Option<Answer>,
    },
    /// The transaction failed and is sent again then, with the same key.
    Backoff(Moment),
    /// The key stands in the queue.
    Waiting,
    /// The lock is ours, since then.
    Held(Moment),
    /// The key is to be deleted; the contender counts as gone.
    Leaving(Answer),
    /// The key was deleted at that revision; remembered until the view has seen it.
    Gone(i64),
}

/// One of our contenders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// What its caller asked for.
    pub spec: Spec,
    /// How far it has come.
    pub phase: Phase,
    /// Its session and that session's lease, once assigned.
    pub session: Option<(SessionId, LeaseId)>,
    /// Its key, once assigned.
    pub key: Option<Key>,
    /// The number in that key.
    pub number: u64,
    /// The create revision of its key, once known: the fencing token of its hold.
    pub revision: i64,
    /// Counts its keys, so that a reply about an earlier key is recognised.
    pub round: u32,
    /// Counts the transactions sent for the present key.
    pub attempts: u32,
    /// Whether the fate of one of those transactions is unknown.
    pub is_ambiguous: bool,
    /// Whether it once stood in the queue.
    pub has_queued: bool,
    /// Whether its session ran out while its key was being deleted: the lease may have taken the key first.
    pub has_outlived_session: bool,
    /// A try among too many nested names to step around: it queues, and leaves unless it is the head.
    pub is_impatient: bool,
    /// Nested names that a try has to step around.
    pub nested: Vec<Key>,
    /// The last error, for the message when the time is up.
    pub last_error: Option<Error>,
    /// When its caller must be answered although the key may still stand.
    pub answer_by: Option<Moment>,
    /// What the queue's timer index holds for it.
    pub wake: Option<Moment>,
}

impl Member {
    /// A contender without a key.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            phase: Phase::Unkeyed,
            session: None,
            key: None,
            number: 0,
            revision: 0,
            round: 0,
            attempts: 0,
            is_ambiguous: false,
            has_queued: false,
            has_outlived_session: false,
            is_impatient: false,
            nested: Vec::new(),
            last_error: None,
            answer_by: None,
            wake: None,
        }
    }

    /// Whether its key counts as gone although it may still stand.
    pub fn has_left(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_) | Phase::Gone(_))
    }

    /// The next moment at which something happens to it by itself.
    pub fn next_wake(&self) -> Option<Moment> {
        let earliest = |a: Option<Moment>, b: Option<Moment>| a.into_iter().chain(b).min();
        let join_by = (!self.has_queued).then_some(self.spec.join_by);
        let give_up = earliest(self.spec.limit, join_by);
        match self.phase {
            Phase::Unkeyed | Phase::Blocked(_) | Phase::Sending { ending: None } => give_up,
            Phase::Backoff(at) => earliest(give_up, Some(at)),
            Phase::Waiting => self.spec.limit,
            Phase::Sending { ending: Some(_) } | Phase::Leaving(_) => self.answer_by,
            Phase::Held(_) | Phase::Gone(_) => None,
        }
    }
}

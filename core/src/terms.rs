//! The words that all rooms share: who asks, for what, and what tells sessions, queues and places apart.
//!
//! Nothing here does anything, and nothing here needs another room.

use std::time::Duration;

/// An acquire and, once it won, its hold. Chosen by the caller, unique within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One session of a client. Unique within a client; a session that replaces a lost one has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// The queue of one name within its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

/// One key of ours in one queue. Unique within a client and never used again, whatever becomes of the key: what is late and
/// speaks of a place that is over meets nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u64);

/// Whether an acquire queues or only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Queue and wait for the turn.
    Wait,
    /// Take the lock if nobody has it.
    Try,
}

/// How far callers of one client may pass a lock on among themselves while others wait for it: the bound of a lock that is
/// [`local_first`](crate::Lock::local_first).
///
/// Whoever waits elsewhere waits for at most so much of each client ahead, and for the hold that goes on when it is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalFirst {
    /// How many owners the lock may have one after the other, the first one included. At least 1; 64 unless told otherwise.
    pub turns: u32,
    /// For how long it may be passed on after it was won: more than zero, at most a minute; 100 ms unless told otherwise.
    pub time: Duration,
}

impl Default for LocalFirst {
    fn default() -> Self {
        Self { turns: 64, time: Duration::from_millis(100) }
    }
}

/// How an acquire shares its place with others of its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// Takes turns with those that wait in the same client, with one place for all of them.
    pub local_first: Option<LocalFirst>,
    /// How long the place stays when nobody waits; zero is not at all.
    pub linger: Duration,
}

impl Sharing {
    /// Whether it shares its place at all.
    pub fn is_some(&self) -> bool {
        self.local_first.is_some() || !self.linger.is_zero()
    }

    /// How far a place may be passed on that others wait for, or may wait for.
    pub fn bound(&self) -> LocalFirst {
        self.local_first.unwrap_or_default()
    }
}

//! The words that all rooms share: who asks, for what, and what tells sessions, queues and places apart.
//!
//! Nothing here does anything, and nothing here needs another room.

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

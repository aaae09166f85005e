//! How much of each kind lives: what leak tests compare and diagnostics print.

use std::sync::atomic::{AtomicU64, Ordering};

/// Everything that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Clients that are not freed.
    pub clients: u64,
    /// Guards that are not freed.
    pub guards: u64,
    /// Operations that are not completed.
    pub operations: u64,
    /// Completion queues that are not freed.
    pub queues: u64,
}

pub(crate) static CLIENTS: AtomicU64 = AtomicU64::new(0);
pub(crate) static GUARDS: AtomicU64 = AtomicU64::new(0);
pub(crate) static OPERATIONS: AtomicU64 = AtomicU64::new(0);
pub(crate) static QUEUES: AtomicU64 = AtomicU64::new(0);

/// What lives now.
pub fn count() -> Live {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Live { clients: read(&CLIENTS), guards: read(&GUARDS), operations: read(&OPERATIONS), queues: read(&QUEUES) }
}

/// In a forked child: the parent's operations stay with the parent. Its objects are here, too, for the host to free.
pub(crate) fn note_fork() {
    OPERATIONS.store(0, Ordering::Relaxed);
}

/// One of them; counts itself out when it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(&'static AtomicU64);

impl Counted {
    pub(crate) fn new(counter: &'static AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

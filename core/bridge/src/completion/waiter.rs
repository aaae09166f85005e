//! A thread that blocks for one result.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Result,
    process::{self, Process},
};

use super::{Completion, Outcome, Queue, Sink};
use crate::{
    fork,
    sync::{Condvar, Mutex, deadline, lock, wait_until},
};

/// The place of one result that a thread waits for.
#[derive(Debug)]
pub struct Slot {
    place: Mutex<Place>,
    filled: Condvar,
    process: Process,
}

#[derive(Debug, Default)]
struct Place {
    result: Option<Result<Outcome>>,
    /// Where the result is awaited instead, and under which tag.
    moved: Option<(Arc<Queue>, u64)>,
}

impl Slot {
    pub(super) fn fill(&self, result: Result<Outcome>) {
        // In a forked child the lock may never come free, and nobody waits.
        if self.process != process::current() {
            return;
        }
        let mut place = lock(&self.place);
        if let Some((queue, tag)) = place.moved.take() {
            drop(place);
            return queue.push(Completion { tag, is_last: true, result });
        }
        let before = place.result.replace(result);
        drop(place);
        self.filled.notify_all();
        // After the lock: a guard in it is released.
        drop(before);
    }
}

/// Waits for one result by blocking the thread. A result that is never waited for is dropped with it.
#[derive(Debug)]
pub struct Waiter {
    slot: Arc<Slot>,
}

impl Default for Waiter {
    fn default() -> Self {
        let slot = Slot { place: Mutex::default(), filled: Condvar::new(), process: process::current() };
        Self { slot: Arc::new(slot) }
    }
}

impl Waiter {
    /// A waiter, to be given as [`Waiter::sink`] to the operation that it waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the operation's result shall go.
    pub fn sink(&self) -> Sink {
        Sink::Waiter(self.slot.clone())
    }

    /// Blocks until the result is there.
    pub fn wait(self) -> Result<Outcome> {
        loop {
            if let Some(result) = self.wait_for(Duration::MAX) {
                return result;
            }
        }
    }

    /// Blocks until the result is there, for at most `limit`. For hosts that must look after something else at times, such as
    /// Ctrl-C; the result is still to be had afterwards.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<Outcome>> {
        if self.slot.process != process::current() {
            return Some(Err(fork::error("operation")));
        }
        let until = deadline(limit);
        let mut place = lock(&self.slot.place);
        loop {
            if let Some(result) = place.result.take() {
                return Some(result);
            }
            place = wait_until(&self.slot.filled, place, until).ok()?;
        }
    }

    /// Has the result sent to `queue`, now or when it is there: for hosts that block for a moment, and then wait in a way of
    /// their own. Closing the queue does not cancel the operation.
    pub fn move_to(self, queue: Arc<Queue>, tag: u64) {
        let mut place = lock(&self.slot.place);
        match place.result.take() {
            Some(result) => {
                drop(place);
                queue.push(Completion { tag, is_last: true, result });
            }
            None => place.moved = Some((queue, tag)),
        }
    }
}

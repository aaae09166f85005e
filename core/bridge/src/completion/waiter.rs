//! A thread that blocks for one result.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Result,
    process::{self, Process},
};

use super::{Outcome, Sink};
use crate::{
    fork,
    sync::{Condvar, Mutex, deadline, lock, wait_until},
};

/// The place of one result that a thread waits for.
#[derive(Debug)]
pub struct Slot {
    result: Mutex<Option<Result<Outcome>>>,
    filled: Condvar,
    process: Process,
}

impl Slot {
    pub(super) fn fill(&self, result: Result<Outcome>) {
        // In a forked child the lock may never come free, and nobody waits.
        if self.process != process::current() {
            return;
        }
        let before = lock(&self.result).replace(result);
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
        let slot = Slot { result: Mutex::new(None), filled: Condvar::new(), process: process::current() };
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
        let mut result = lock(&self.slot.result);
        loop {
            if let Some(result) = result.take() {
                return Some(result);
            }
            result = wait_until(&self.slot.filled, result, until)?;
        }
    }
}

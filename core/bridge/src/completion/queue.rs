//! The completions on their way to one loop or dispatcher of a host.

use std::{collections::VecDeque, fmt, io, os::fd::RawFd, sync::Arc, time::Duration};

use leasehold::{
    Code, Error, Result,
    process::{self, Process},
};

use super::{Completion, Sink, wake::WakeFd};
use crate::{
    fork,
    live::{self, Counted},
    logs, operation, panics,
    sync::{Condvar, Mutex, deadline, lock, wait_until},
};

/// Completions on their way to one loop or dispatcher of a host.
///
/// The waker is called when there is something in a queue that was empty, and only then. Operations that are under way hold
/// the queue: [`Queue::close`] it when its loop ends.
pub struct Queue {
    state: Mutex<State>,
    ready: Condvar,
    wake: Wake,
    process: Process,
    _counted: Counted,
}

#[derive(Default)]
struct State {
    completions: VecDeque<Completion>,
    is_closed: bool,
    /// Threads that wait in [`Queue::take`].
    takers: usize,
}

/// How a host learns that there is something to drain.
enum Wake {
    /// It blocks in [`Queue::take`].
    Nothing,
    /// It waits for this to become readable.
    Fd(WakeFd),
    /// It is told so. Must neither block nor run code of the host's.
    Call(Box<dyn Fn() + Send + Sync>),
}

impl Queue {
    /// A queue for a thread that blocks in [`Queue::take`].
    pub fn new() -> Arc<Self> {
        Self::with(Wake::Nothing)
    }

    /// A queue for a loop that waits until [`Queue::fd`] is readable.
    ///
    /// # Errors
    /// [`Code::ResourceExhausted`] if the process has no file descriptor left.
    pub fn with_fd() -> Result<Arc<Self>> {
        let failed = |error: io::Error| {
            Error::new(Code::ResourceExhausted, format!("could not open a file descriptor to wake the loop: {error}"))
        };
        Ok(Self::with(Wake::Fd(WakeFd::open().map_err(failed)?)))
    }

    /// A queue for a loop that `wake` wakes. `wake` runs on a thread that renews leases, or on one that drains: it must neither
    /// block nor run code of the host's.
    pub fn with_waker(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Self::with(Wake::Call(Box::new(wake)))
    }

    fn with(wake: Wake) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            ready: Condvar::new(),
            wake,
            process: process::current(),
            _counted: Counted::new(&live::QUEUES),
        })
    }

    /// The file descriptor that is readable while there is something to drain. Closed with the queue.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.wake {
            Wake::Fd(fd) => Some(fd.as_raw()),
            Wake::Nothing | Wake::Call(_) => None,
        }
    }

    /// Refuses the queue of a parent process, which brings nothing here: no operation must be started into it.
    ///
    /// # Errors
    /// [`Code::Forked`].
    pub fn check_process(&self) -> Result<()> {
        if self.is_ours() { Ok(()) } else { Err(fork::error("completion queue")) }
    }

    /// Where the results of an operation go that the host knows by `tag`.
    pub fn sink(self: &Arc<Self>, tag: u64) -> Sink {
        Sink::Queue(self.clone(), tag)
    }

    /// Takes at most `most` completions without waiting. In a forked child there are none: they are the parent's.
    pub fn drain(&self, most: usize) -> Vec<Completion> {
        if !self.is_ours() {
            return Vec::new();
        }
        if let Wake::Fd(fd) = &self.wake {
            // First: what is pushed from here on is either taken below or wakes again.
            fd.clear();
        }
        let mut state = lock(&self.state);
        let count = state.completions.len().min(most);
        let taken = state.completions.drain(..count).collect();
        let is_left = !state.completions.is_empty();
        drop(state);
        if is_left {
            self.wake();
        }
        taken
    }

    /// Takes at most `most` completions; waits for the first for at most `limit`. `None` when the queue is closed.
    pub fn take(&self, most: usize, limit: Duration) -> Option<Vec<Completion>> {
        if !self.is_ours() {
            return None;
        }
        let until = deadline(limit);
        let mut state = lock(&self.state);
        state.takers += 1;
        while state.completions.is_empty() && !state.is_closed {
            match wait_until(&self.ready, state, until) {
                Ok(woken) => state = woken,
                Err(late) => {
                    state = late;
                    break;
                }
            }
        }
        state.takers -= 1;
        if state.completions.is_empty() && state.is_closed {
            return None;
        }
        let count = state.completions.len().min(most);
        Some(state.completions.drain(..count).collect())
    }

    /// Ends the queue: what is in it and what still comes is dropped (guards are released), operations that would answer into
    /// it are cancelled, and [`Queue::take`] returns.
    pub fn close(&self) {
        if !self.is_ours() {
            return;
        }
        let mut state = lock(&self.state);
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.completions);
        drop(state);
        self.ready.notify_all();
        operation::cancel_into(self);
        logs::forget(self);
        // After the lock: a guard in it is released.
        drop(dropped);
    }

    pub(crate) fn is_closed(&self) -> bool {
        !self.is_ours() || lock(&self.state).is_closed
    }

    pub(super) fn push(&self, completion: Completion) {
        // In a forked child the lock may never come free, and the wake-up would reach the parent.
        if !self.is_ours() {
            return;
        }
        let mut state = lock(&self.state);
        if state.is_closed {
            // The lock first: a guard in the completion is released.
            drop(state);
            drop(completion);
            return;
        }
        let was_empty = state.completions.is_empty();
        state.completions.push_back(completion);
        let is_awaited = state.takers > 0;
        drop(state);
        // std asks the kernel even if nobody waits, and a loop's queue has nobody.
        if is_awaited {
            self.ready.notify_one();
        }
        if was_empty {
            self.wake();
        }
    }

    fn wake(&self) {
        match &self.wake {
            Wake::Nothing => {}
            Wake::Fd(fd) => fd.set(),
            // A panic of the host's waker would end whatever told of its end here, the engine included.
            Wake::Call(wake) => panics::contain(wake),
        }
    }

    fn is_ours(&self) -> bool {
        self.process == process::current()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("fd", &self.fd()).finish_non_exhaustive()
    }
}

//! Where the results of operations go: to a thread that blocks for one, or into a queue that a host drains.
//!
//! Nothing here runs foreign code on the threads that renew leases. A result that nobody takes is dropped, and a guard in it
//! is released by that: claim or release.

use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{
    Code, Committed, Contender, Error, LostReason, Result, SessionState,
    process::{self, Process},
};

use crate::{
    guard::Guard,
    live::{self, Counted},
    logs::LogRecord,
    sync::{Condvar, Mutex, lock},
};

/// What an operation brought.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done, and there is nothing to say about it.
    Done,
    /// The lock is held.
    Guard(Guard),
    /// Yes or no.
    Flag(bool),
    /// The revision of a write.
    Revision(i64),
    /// What a guarded transaction did.
    Committed(Committed),
    /// Everybody in a queue, the holder first.
    Contenders(Vec<Contender>),
    /// The guard was lost.
    Lost(LostReason),
    /// The guard was released, and was not lost before.
    Released,
    /// The client's session feels different now.
    State(SessionState),
    /// Something for the log.
    Log(LogRecord),
    /// What an echo was given.
    Text(String),
}

impl Outcome {
    /// The guard that an acquire brought.
    ///
    /// # Errors
    /// [`Code::Internal`] if it is anything else.
    pub fn into_guard(self) -> Result<Guard> {
        match self {
            Self::Guard(guard) => Ok(guard),
            other => Err(Error::new(Code::Internal, format!("an acquire brought {other:?}, please report it"))),
        }
    }
}

/// The result of an operation on its way to the host.
#[derive(Debug)]
pub struct Completion {
    /// What the host gave to know it by.
    pub tag: u64,
    /// Whether nothing more comes for this operation. Only subscriptions have more than one completion.
    pub is_last: bool,
    /// What it brought.
    pub result: Result<Outcome>,
}

/// Where an operation's results go.
#[derive(Clone, Debug)]
pub enum Sink {
    /// To a thread that blocks; see [`Waiter::new`].
    Waiter(Arc<Slot>),
    /// Into a queue, under a tag of the host's.
    Queue(Arc<Queue>, u64),
}

impl Sink {
    /// One of several results; more will come.
    pub(crate) fn report(&self, outcome: Outcome) {
        self.send(false, Ok(outcome));
    }

    fn send(&self, is_last: bool, result: Result<Outcome>) {
        match self {
            Self::Waiter(slot) => slot.fill(result),
            Self::Queue(queue, tag) => queue.push(Completion { tag: *tag, is_last, result }),
        }
    }
}

/// The duty to complete an operation exactly once: dropped without, it completes the operation with an error.
#[derive(Debug)]
pub(crate) struct Promise(Option<Sink>);

impl Promise {
    pub(crate) fn new(sink: Sink) -> Self {
        Self(Some(sink))
    }

    /// The last result.
    pub(crate) fn complete(mut self, result: Result<Outcome>) {
        if let Some(sink) = self.0.take() {
            sink.send(true, result);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(sink) = self.0.take() {
            let message = "the operation ended without an answer, please report it";
            sink.send(true, Err(Error::new(Code::Internal, message)));
        }
    }
}

/// The place of one result that a thread waits for.
#[derive(Debug, Default)]
pub struct Slot {
    result: Mutex<Option<Result<Outcome>>>,
    filled: Condvar,
}

impl Slot {
    fn fill(&self, result: Result<Outcome>) {
        *lock(&self.result) = Some(result);
        self.filled.notify_all();
    }
}

/// Waits for one result by blocking the thread.
#[derive(Debug, Default)]
pub struct Waiter {
    slot: Arc<Slot>,
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
        let mut result = lock(&self.slot.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.slot.filled.wait(result).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Blocks until the result is there, for at most `limit`. For hosts that must look after something else at times, such as
    /// Ctrl-C; the result is still to be had afterwards.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<Outcome>> {
        let until = Instant::now() + limit;
        let mut result = lock(&self.slot.result);
        loop {
            if let Some(result) = result.take() {
                return Some(result);
            }
            let left = until.checked_duration_since(Instant::now())?;
            result = self
                .slot
                .filled
                .wait_timeout(result, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(result, _)| result);
        }
    }
}

/// Completions on their way to one loop or dispatcher of a host.
///
/// The waker is called when there is something in a queue that was empty, and only then.
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

    /// A queue for a loop that `wake` wakes. `wake` runs on a thread that renews leases: it must neither block nor run code of
    /// the host's.
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

    /// Where the results of an operation go that the host knows by `tag`.
    pub fn sink(self: &Arc<Self>, tag: u64) -> Sink {
        Sink::Queue(self.clone(), tag)
    }

    /// Takes at most `most` completions without waiting. In a forked child there are none: they are the parent's.
    pub fn drain(&self, most: usize) -> Vec<Completion> {
        if self.process != process::current() {
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
        if self.process != process::current() {
            return None;
        }
        let until = Instant::now() + limit;
        let mut state = lock(&self.state);
        while state.completions.is_empty() {
            if state.is_closed {
                return None;
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return Some(Vec::new()) };
            state = self
                .ready
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        let count = state.completions.len().min(most);
        Some(state.completions.drain(..count).collect())
    }

    /// Ends the queue: what is in it and what still comes is dropped (guards are released), and [`Queue::take`] returns.
    pub fn close(&self) {
        if self.process != process::current() {
            return;
        }
        let mut state = lock(&self.state);
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.completions);
        drop(state);
        self.ready.notify_all();
        drop(dropped);
    }

    fn push(&self, completion: Completion) {
        let mut state = lock(&self.state);
        if state.is_closed {
            // After the lock: a guard's release needs none of it.
            drop(state);
            drop(completion);
            return;
        }
        let was_empty = state.completions.is_empty();
        state.completions.push_back(completion);
        drop(state);
        self.ready.notify_one();
        if was_empty {
            self.wake();
        }
    }

    fn wake(&self) {
        match &self.wake {
            Wake::Nothing => {}
            Wake::Fd(fd) => fd.set(),
            Wake::Call(wake) => wake(),
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("fd", &self.fd()).finish_non_exhaustive()
    }
}

/// A file descriptor that is readable while it is set: an eventfd, or a pipe where there is none.
struct WakeFd {
    read: OwnedFd,
    /// The other end of the pipe; an eventfd is both.
    write: Option<OwnedFd>,
}

impl WakeFd {
    #[cfg(target_os = "linux")]
    fn open() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self { read: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, write: None })
    }

    #[cfg(not(target_os = "linux"))]
    fn open() -> io::Result<Self> {
        use rustix::{fs::OFlags, pipe::pipe};
        let (read, write) = pipe()?;
        for end in [&read, &write] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK)?;
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(Self { read, write: Some(write) })
    }

    fn set(&self) {
        let end = self.write.as_ref().unwrap_or(&self.read);
        // Fails only when it is full, and then it is set.
        let _ = rustix::io::write(end, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let mut buffer = [0; 64];
        // Fails only when there is nothing to read, and then it is clear. A pipe may hold more than one read takes: that is a
        // wake-up too many, not one too few.
        let _ = rustix::io::read(&self.read, &mut buffer);
    }

    fn as_raw(&self) -> RawFd {
        self.read.as_fd().as_raw_fd()
    }
}

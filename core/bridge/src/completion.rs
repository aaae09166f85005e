//! Where the results of operations go: to a thread that blocks for one, or into a queue that a host drains.
//!
//! Nothing here runs foreign code on the threads that renew leases. A result that nobody takes is dropped, and a guard in it
//! is released by that: claim or release.

mod queue;
mod waiter;
mod wake;

use std::sync::Arc;

use leasehold::{Code, Committed, Contender, Error, Leader, LostReason, Observed, Result, SessionState};

pub use self::{
    queue::Queue,
    waiter::{Slot, Waiter},
};
use crate::{guard::Guard, logs::LogRecord};

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
    /// Who leads an election now.
    Leader(Option<Leader>),
    /// Who leads an election from now on.
    Observed(Observed),
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

/// A state's name for hosts, and why the session was lost if it was.
pub fn session_state(state: SessionState) -> (&'static str, Option<LostReason>) {
    match state {
        SessionState::Suspect => ("suspect", None),
        SessionState::Lost(reason) => ("lost", Some(reason)),
        // One that is not known here yet can be trusted, or it would be a loss.
        _ => ("ok", None),
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

    /// The queue, if it is one.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        match self {
            Self::Waiter(_) => None,
            Self::Queue(queue, _) => Some(queue),
        }
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

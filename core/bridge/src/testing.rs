//! Operations for the tests of a binding: they need no server, and show that its plumbing holds when things go wrong.

use leasehold::{Code, Error};

use crate::{
    completion::{Outcome, Sink},
    operation::{self, Cancel, OpId},
};

/// Brings back `text` as [`Outcome::Text`].
pub fn echo(text: String, sink: Sink) -> OpId {
    operation::start(sink, None, |_| async move { Ok(Outcome::Text(text)) })
}

/// Fails with the code of this number; an unknown number is [`Code::Internal`].
pub fn fail(number: i32, sink: Sink) -> OpId {
    let code = Code::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Code::Internal);
    operation::start(sink, None, move |_| async move { Err(Error::new(code, format!("{code} was asked for"))) })
}

/// Where [`panic()`] panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the call that starts the operation, on the host's thread: the host needs [`crate::panics::catch`] there.
    Start,
    /// On the host's thread, too, but within the operation.
    Work,
    /// At the beginning of its task.
    Task,
    /// In its task, after it was suspended once.
    Later,
    /// When its task is over, in the drop of what the task had.
    Drop,
}

/// Panics. Unless that is at [`Stage::Start`], it completes with [`Code::Internal`].
pub fn panic(stage: Stage, sink: Sink) -> OpId {
    if stage == Stage::Start {
        panic!("a panic at the start was asked for");
    }
    operation::start(sink, None, move |_| {
        if stage == Stage::Work {
            panic!("a panic in the work was asked for");
        }
        // Belongs to the task, also before its first step.
        let bomb = Bomb { is_armed: stage == Stage::Drop };
        async move {
            if stage == Stage::Later {
                tokio::task::yield_now().await;
            }
            if bomb.is_armed {
                return Err(Error::new(Code::Internal, "a panic in a drop was asked for"));
            }
            panic!("a panic in the task was asked for");
        }
    })
}

/// Panics when it is dropped.
struct Bomb {
    is_armed: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.is_armed, "a panic in a drop was asked for");
    }
}

/// Does nothing until it is cancelled.
pub fn never(cancel: Option<&Cancel>, sink: Sink) -> OpId {
    operation::start(sink, cancel, |stop| async move { stop.or(std::future::pending()).await })
}

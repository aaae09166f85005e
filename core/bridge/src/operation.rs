//! Operations: started by a host, run on the thread that talks to etcd, completed exactly once, cancelled by request.
//!
//! Cancelling is a message, never a dropped call: an acquire withdraws its key before it answers, and answers with the guard if
//! it had won.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold::{Code, Error, Result, process::PerProcess, runtime};
use tokio_util::sync::CancellationToken;

use crate::{
    completion::{Outcome, Promise, Sink},
    fork,
    live::{self, Counted},
    panics,
};

/// An operation that was started in this process. Never used again, so one that is over does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

static NEXT: AtomicU64 = AtomicU64::new(1);
static RUNNING: PerProcess<Mutex<HashMap<OpId, Cancel>>> = PerProcess::new();

/// A way to cancel operations that were started with it, from any thread, before or after they were.
#[derive(Clone, Debug, Default)]
pub struct Cancel(CancellationToken);

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels everything that was or will be started with it.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Cancelled with this one, or alone.
    fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Waits until it is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// What `task` brings, or [`Code::Cancelled`] if that takes longer than the caller's patience. `task` goes on in the
    /// background as far as it has to.
    pub(crate) async fn or_cancelled<T>(&self, task: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            result = task => result,
            () = self.cancelled() => Err(cancelled()),
        }
    }
}

pub(crate) fn cancelled() -> Error {
    Error::new(Code::Cancelled, "the operation was cancelled")
}

/// Cancels one operation. False if it is over, or was never started in this process.
pub fn cancel(id: OpId) -> bool {
    let cancel = running().get(&id).cloned();
    cancel.inspect(Cancel::cancel).is_some()
}

/// Starts an operation with one result. `cancel` ends it, and so does [`cancel()`].
pub(crate) fn start<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Cancel) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    let work = |cancel: Cancel, _| work(cancel);
    start_with(sink, cancel, work)
}

/// Starts an operation that may have results before its last one.
pub(crate) fn start_with<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Cancel, Sink) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    fork::watch();
    let id = OpId(NEXT.fetch_add(1, Ordering::Relaxed));
    let cancel = cancel.map_or_else(Cancel::new, Cancel::child);
    let promise = Promise::new(sink.clone());
    let counted = Counted::new(&live::OPERATIONS);
    match runtime::handle() {
        Ok(runtime) => {
            running().insert(id, cancel.clone());
            let work = work(cancel, sink);
            runtime.spawn(async move {
                let result = panics::catch_in_task(work).await;
                running().remove(&id);
                drop(counted);
                promise.complete(result);
            });
        }
        Err(error) => promise.complete(Err(error)),
    }
    id
}

fn running() -> MutexGuard<'static, HashMap<OpId, Cancel>> {
    RUNNING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

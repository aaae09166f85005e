//! Operations: started by a host, run on the thread that talks to etcd, completed exactly once, cancelled by request.
//!
//! Cancelling is a message, never a dropped call: an acquire withdraws its key before it answers, and answers with the guard if
//! it had won.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use leasehold::{Code, Error, Result, process::PerProcess};
use tokio_util::sync::CancellationToken;

use crate::{
    completion::{Outcome, Promise, Queue, Sink},
    fork,
    live::{self, Counted},
    panics,
    sync::{runtime, step},
};

/// An operation that was started in this process. Never used again, so one that is over does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

static NEXT: AtomicU64 = AtomicU64::new(1);
static RUNNING: PerProcess<Mutex<HashMap<OpId, Running>>> = PerProcess::new();

/// What is known about an operation until it is over.
struct Running {
    stop: Stop,
    /// The queue that it answers into, as a number to compare with: the operation keeps the queue.
    queue: Option<usize>,
}

/// A way to cancel operations that were started with it, from any thread, before or after they were.
///
/// In a forked child it cancels those of the child.
#[derive(Clone, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    /// In this process, or in its parent before the fork.
    is_cancelled: AtomicBool,
    token: PerProcess<CancellationToken>,
}

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels everything that was or will be started with it.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.token.get().cancel();
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// For one operation: stopped with this one, or alone.
    pub(crate) fn stop(&self) -> Stop {
        let stop = Stop(self.0.token.get().child_token());
        // The token of a forked child does not know what happened before the fork.
        if self.is_cancelled() {
            stop.ask();
        }
        stop
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// How one operation is told to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(CancellationToken);

impl Stop {
    fn ask(&self) {
        self.0.cancel();
    }

    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is asked for.
    pub(crate) async fn asked(&self) {
        self.0.cancelled().await;
    }

    /// What `task` brings, or [`Code::Cancelled`] if that comes first. `task` goes on in the background as far as it has to.
    pub(crate) async fn or<T>(&self, task: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            result = task => result,
            () = self.asked() => Err(cancelled()),
        }
    }
}

pub(crate) fn cancelled() -> Error {
    Error::new(Code::Cancelled, "the operation was cancelled")
}

/// Cancels one operation. False if it is over, or was never started in this process.
pub fn cancel(id: OpId) -> bool {
    let stop = running().get(&id).map(|running| running.stop.clone());
    stop.inspect(Stop::ask).is_some()
}

/// Cancels everything that answers into `queue`.
pub(crate) fn cancel_into(queue: &Queue) {
    let is_into = |running: &&Running| running.queue == Some(address(queue));
    let stops: Vec<Stop> = running().values().filter(is_into).map(|running| running.stop.clone()).collect();
    stops.iter().for_each(Stop::ask);
}

/// Starts an operation with one result. `cancel` ends it, and so does [`cancel()`]; cancelled before it starts, it does nothing.
pub(crate) fn start<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stop) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    start_with(sink, cancel, |stop, _| {
        let work = Box::pin(work(stop.clone()));
        async move { if stop.is_asked() { Err(cancelled()) } else { work.await } }
    })
}

/// Starts an operation that takes effect even if it is cancelled before: only its answer is not waited for then.
pub(crate) fn start_anyway<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stop) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    start_with(sink, cancel, |stop, _| Box::pin(work(stop)))
}

/// Starts an operation that may have results before its last one.
///
/// What `work` makes is moved several times on its way to the thread that runs it; so futures that are large are boxed.
pub(crate) fn start_with<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stop, Sink) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    fork::watch();
    let id = OpId(NEXT.fetch_add(1, Ordering::Relaxed));
    let stop = cancel.map_or_else(Stop::default, Cancel::stop);
    let pending = Pending::new(id, stop.clone(), sink.clone());
    // A panic here, on the host's thread, completes the operation as one in its task does: the host hears of it once.
    let ready = runtime().and_then(|runtime| Ok((runtime, panics::catch(|| Ok(work(stop, sink)))?)));
    match ready {
        Ok((runtime, work)) => {
            let task = async move {
                let result = panics::catch_in_task(work).await;
                pending.complete(result);
            };
            drop(runtime.spawn(task));
        }
        Err(error) => pending.complete(Err(error)),
    }
    id
}

/// An operation that is not completed yet. Dropped, it is completed with an error.
struct Pending {
    // In this order: whoever has the last result finds the operation gone.
    entry: Entry,
    counted: Counted,
    promise: Promise,
}

impl Pending {
    fn new(id: OpId, stop: Stop, sink: Sink) -> Self {
        let queue = sink.queue();
        running().insert(id, Running { stop: stop.clone(), queue: queue.map(address) });
        // After it is entered: a queue that is closed from here on finds it there.
        if queue.is_some_and(Queue::is_closed) {
            stop.ask();
        }
        Self { entry: Entry(id), counted: Counted::new(&live::OPERATIONS), promise: Promise::new(sink) }
    }

    fn complete(self, result: Result<Outcome>) {
        let Self { entry, counted, promise } = self;
        drop((entry, counted));
        promise.complete(result);
    }
}

/// The entry in the table of running operations.
struct Entry(OpId);

impl Drop for Entry {
    fn drop(&mut self) {
        // Dropped after the lock.
        let _removed = running().remove(&self.0);
    }
}

fn running() -> MutexGuard<'static, HashMap<OpId, Running>> {
    step();
    RUNNING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(queue: &Queue) -> usize {
    std::ptr::from_ref(queue).addr()
}

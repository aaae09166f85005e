//! Operations: started by a host, carried out on the thread that talks to etcd, completed exactly once, cancelled by request.
//!
//! What is asked of the core is answered by a call, and what takes several steps is a task; both end in the table of running
//! operations, which has the result sent by whoever takes the operation out of it.
//!
//! Cancelling is a message, never a dropped call: an acquire withdraws its key before it answers, and a lock that it won
//! meanwhile is released.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use leasehold::{Acquiring, Code, Error, Result, process::PerProcess};
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

/// An operation until it is over.
struct Running {
    promise: Promise,
    stop: Stop,
    is_cancelled: bool,
    /// What it was started with.
    cancel: Option<Cancel>,
    /// The queue that it answers into, as a number to compare with: the promise keeps the queue.
    queue: Option<usize>,
    /// Counts it as running.
    _counted: Counted,
}

/// How an operation is told to stop.
enum Stop {
    /// It is about to start.
    NotYet,
    /// Its task is told so.
    Task(Stopped),
    /// It withdraws its key, and answers then.
    Withdraw(Acquiring),
    /// It goes on, and its answer is not waited for.
    Leave,
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
    /// The running operations that were started with it.
    operations: PerProcess<Mutex<HashSet<OpId>>>,
}

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels everything that was or will be started with it.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        let operations = std::mem::take(&mut *self.operations());
        for id in operations {
            cancel(id);
        }
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    fn operations(&self) -> MutexGuard<'_, HashSet<OpId>> {
        step();
        self.0.operations.get().lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// What the task of an operation looks at to know whether it is cancelled.
#[derive(Clone, Default)]
pub(crate) struct Stopped(CancellationToken);

impl Stopped {
    /// Whether it is cancelled.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is cancelled.
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
    let mut table = running();
    let Some(operation) = table.get_mut(&id) else { return false };
    operation.is_cancelled = true;
    // Whatever it leads to comes after the lock.
    match &operation.stop {
        Stop::NotYet => {}
        Stop::Task(stopped) => {
            let stopped = stopped.clone();
            drop(table);
            stopped.0.cancel();
        }
        Stop::Withdraw(acquiring) => {
            let acquiring = acquiring.clone();
            drop(table);
            acquiring.cancel();
        }
        Stop::Leave => {
            drop(table);
            if let Some(promise) = take(id) {
                promise.complete(Err(cancelled()));
            }
        }
    }
    true
}

/// Cancels everything that answers into `queue`.
pub(crate) fn cancel_into(queue: &Queue) {
    let is_into = |(id, running): (&OpId, &Running)| (running.queue == Some(address(queue))).then_some(*id);
    let operations: Vec<OpId> = running().iter().filter_map(is_into).collect();
    for id in operations {
        cancel(id);
    }
}

/// Starts an operation with one result. `cancel` ends it, and so does [`cancel()`]; cancelled before it starts, it does nothing.
pub(crate) fn start<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stopped) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    start_with(sink, cancel, |stopped, _| {
        let work = Box::pin(work(stopped.clone()));
        async move { if stopped.is_asked() { Err(cancelled()) } else { work.await } }
    })
}

/// Starts an operation that takes effect even if it is cancelled before: only its answer is not waited for then.
pub(crate) fn start_anyway<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stopped) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    start_with(sink, cancel, |stopped, _| Box::pin(work(stopped)))
}

/// Starts an operation that may have results before its last one.
///
/// What `work` makes is moved several times on its way to the thread that runs it; so futures that are large are boxed.
pub(crate) fn start_with<F>(sink: Sink, cancel: Option<&Cancel>, work: impl FnOnce(Stopped, Sink) -> F) -> OpId
where
    F: Future<Output = Result<Outcome>> + Send + 'static,
{
    let stopped = Stopped::default();
    let pending = Pending::new(Stop::Task(stopped.clone()), &sink, cancel);
    let id = pending.0;
    // A panic here, on the host's thread, completes the operation as one in its task does: the host hears of it once.
    let ready = runtime().and_then(|runtime| Ok((runtime, panics::catch(|| Ok(work(stopped, sink)))?)));
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

/// Starts an acquire: `begin` is given what completes it.
pub(crate) fn start_acquire(sink: Sink, cancel: Option<&Cancel>, begin: impl FnOnce(Pending) -> Acquiring) -> OpId {
    start_call(&sink, cancel, |pending| {
        if pending.is_cancelled() {
            pending.complete(Err(cancelled()));
            return Stop::Leave;
        }
        Stop::Withdraw(begin(pending))
    })
}

/// Starts a release, cancelled or not: `begin` is given what completes it.
pub(crate) fn start_release(sink: Sink, cancel: Option<&Cancel>, begin: impl FnOnce(Pending)) -> OpId {
    start_call(&sink, cancel, |pending| {
        begin(pending);
        Stop::Leave
    })
}

/// Starts an operation that the core answers by a call, which saves a task and its turns of the scheduler.
fn start_call(sink: &Sink, cancel: Option<&Cancel>, begin: impl FnOnce(Pending) -> Stop) -> OpId {
    let pending = Pending::new(Stop::NotYet, sink, cancel);
    let id = pending.0;
    // What panics drops the pending operation, which completes it.
    if let Ok(stop) = panics::catch(|| Ok(begin(pending))) {
        set_stop(id, stop);
    }
    id
}

/// Says how an operation that has started is told to stop, and tells it so if it was cancelled meanwhile.
fn set_stop(id: OpId, stop: Stop) {
    let mut table = running();
    // It may be over already.
    let Some(operation) = table.get_mut(&id) else { return };
    operation.stop = stop;
    let is_cancelled = operation.is_cancelled;
    drop(table);
    if is_cancelled {
        cancel(id);
    }
}

/// The duty to complete an operation exactly once. Dropped without, it is completed with an error.
pub(crate) struct Pending(OpId);

impl Pending {
    fn new(stop: Stop, sink: &Sink, cancel: Option<&Cancel>) -> Self {
        fork::watch();
        let id = OpId(NEXT.fetch_add(1, Ordering::Relaxed));
        let operation = Running {
            promise: Promise::new(sink.clone()),
            stop,
            is_cancelled: false,
            cancel: cancel.cloned(),
            queue: sink.queue().map(address),
            _counted: Counted::new(&live::OPERATIONS),
        };
        running().insert(id, operation);
        if let Some(cancel) = cancel {
            cancel.operations().insert(id);
        }
        // After it is entered: what is cancelled or closed from here on finds it there.
        if cancel.is_some_and(Cancel::is_cancelled) || sink.queue().is_some_and(Queue::is_closed) {
            self::cancel(id);
        }
        Self(id)
    }

    /// Whether it was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        running().get(&self.0).is_some_and(|operation| operation.is_cancelled)
    }

    /// Sends the last result, unless the operation was left.
    pub(crate) fn complete(self, result: Result<Outcome>) {
        if let Some(promise) = take(self.0) {
            promise.complete(result);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        drop(take(self.0));
    }
}

/// Takes an operation out of the table: whoever has the last result finds it gone.
fn take(id: OpId) -> Option<Promise> {
    let taken = running().remove(&id);
    taken.map(|Running { promise, cancel, .. }| {
        if let Some(cancel) = cancel {
            cancel.operations().remove(&id);
        }
        promise
    })
}

fn running() -> MutexGuard<'static, HashMap<OpId, Running>> {
    step();
    RUNNING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(queue: &Queue) -> usize {
    std::ptr::from_ref(queue).addr()
}

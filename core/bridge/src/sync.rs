//! The locks and waits of the queue and the waiter, and where operations run: std's and tokio's, or those of a scheduler that
//! tries every order (feature `model`).

#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};

use leasehold::Result;

/// Locks, also after a panic: what our locks protect is changed in single steps and is never half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a wait of `limit` from now ends; `None` if no clock goes so far: never.
pub(crate) fn deadline(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}

/// Waits to be notified, until `deadline` at the latest; an error when that has passed.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> std::result::Result<MutexGuard<'a, T>, MutexGuard<'a, T>> {
    let Some(deadline) = deadline else {
        return Ok(condvar.wait(guard).unwrap_or_else(PoisonError::into_inner));
    };
    match deadline.checked_duration_since(Instant::now()) {
        None | Some(Duration::ZERO) => Err(guard),
        Some(left) => Ok(condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0),
    }
}

/// What runs the operations: the thread that talks to etcd.
#[cfg(not(feature = "model"))]
pub(crate) fn runtime() -> Result<tokio::runtime::Handle> {
    leasehold::runtime::handle()
}

#[cfg(feature = "model")]
pub(crate) fn runtime() -> Result<Scheduler> {
    Ok(Scheduler)
}

/// The scheduler as a runtime.
#[cfg(feature = "model")]
pub(crate) struct Scheduler;

#[cfg(feature = "model")]
impl Scheduler {
    pub(crate) fn spawn<F>(&self, task: F) -> shuttle::future::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        shuttle::future::spawn(task)
    }
}

/// A place between two steps where another thread may come in between: the scheduler sees its own locks only.
#[cfg(not(feature = "model"))]
pub(crate) fn step() {}

#[cfg(feature = "model")]
pub(crate) fn step() {
    shuttle::thread::yield_now();
}

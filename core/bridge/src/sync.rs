//! The locks of the queue and the waiter: std's, or those of a scheduler that tries every order (feature `model`).

#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Locks, also after a panic: what our locks protect is changed in single steps and is never half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

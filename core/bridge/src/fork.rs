//! Forks: a child starts anew, and what it inherited cannot hang it.
//!
//! Most of that is the core's ([`leasehold::process`]). Here are the handlers that tell it, and that keep whole what both sides
//! need: another thread may be changing the table of handles, or be making the runtime, at the moment of the fork. The thread
//! that forks holds the locks of both across it. std's lock is one atomic word on Linux and knows no owner, which makes that
//! possible.

use std::{
    cell::RefCell,
    fmt,
    mem::ManuallyDrop,
    ops::Deref,
    sync::{
        MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use leasehold::{
    Code, Error,
    process::{self, Process},
    runtime,
};

pub use leasehold::process::PerProcess;

use crate::{
    handles::{self, Tables},
    live,
};

/// What is held across a fork.
type Held = (MutexGuard<'static, ()>, MutexGuard<'static, Tables>);

thread_local! {
    /// By this thread, while it forks.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Watches for forks from now on. Called by everything that makes state which a fork could harm.
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.load(Ordering::Relaxed) || IS_WATCHED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handlers are functions that live for ever, take no argument and do not unwind.
    let status = unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    if status != 0 {
        // Out of memory. The process id still tells a child from its parent.
        tracing::warn!(status, "could not register the fork handlers");
    }
}

extern "C" fn before() {
    // A thread that is past its thread-locals cannot hold anything; it forks at its own risk.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some((runtime::hold(), handles::tables())));
}

extern "C" fn after_in_parent() {
    let_go();
}

extern "C" fn after_in_child() {
    process::note_fork();
    live::note_fork();
    let_go();
}

fn let_go() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// The error of whoever waits for something of the parent's in a forked child.
pub(crate) fn error(what: &str) -> Error {
    Error::new(Code::Forked, format!("this {what} belongs to the parent process; make another one in this process"))
}

/// A value of this process. A forked child may look at it and does not drop it: that could wait for a lock which a thread of
/// the parent's held, or wake the parent's tasks.
pub(crate) struct OfProcess<T> {
    owner: Process,
    value: ManuallyDrop<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { owner: process::current(), value: ManuallyDrop::new(value) }
    }

    /// Whether this is the process that made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.owner == process::current()
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: nobody can look at the value after this drop, and it is dropped nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OfProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Dropped<'a>(&'a Cell<bool>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn a_child_does_not_drop_what_is_its_parents() {
        let is_dropped = Cell::new(false);
        let value = OfProcess::new(Dropped(&is_dropped));
        // SAFETY: the child only drops the value and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(value);
            // SAFETY: ends the child at once, without the handlers of the test runner.
            unsafe { libc::_exit(i32::from(is_dropped.get())) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours, and `child` has not been waited for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child dropped it");
        drop(value);
        assert!(is_dropped.get(), "its own process drops it");
    }
}

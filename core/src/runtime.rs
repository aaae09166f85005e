//! The thread that renews leases and talks to etcd: one for the process, started by the first operation.
//!
//! It is our own, so that a program that blocks its runtime, or has none, loses no lock. It never runs foreign code: what it
//! finds out goes into channels that callers wait on, and the program's signals are for the program's threads.

use std::{
    mem::MaybeUninit,
    sync::{Mutex, MutexGuard, PoisonError},
};

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};

use crate::{
    error::{Code, Error, Result},
    process::PerProcess,
};

/// Signals that are the thread's own fault, or a profiler's: blocked, they would end the process or hide the thread.
const NOT_BLOCKED: [libc::c_int; 8] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGPROF,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// This process's runtime: a forked child starts its own.
static RUNTIME: PerProcess<OnceCell<Handle>> = PerProcess::new();

/// Held while a runtime is made.
static MAKING: Mutex<()> = Mutex::new(());

/// Waits until no runtime is being made, and lets none be made until what it gives is dropped. For whoever forks: the
/// libraries below set up state of the whole process on the way, and the child would wait for ever for a thread of its parent
/// that is in the middle of that (seen with tokio's table of signals).
pub fn hold() -> MutexGuard<'static, ()> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime's handle; starts its thread, `lh-io-0`, if this process has none yet. Threads beside it, for what can only be
/// asked by blocking (the addresses of a host name), come and go as `lh-io-blocking`.
pub fn handle() -> Result<Handle> {
    RUNTIME.get().get_or_try_init(start).cloned()
}

fn start() -> Result<Handle> {
    let failed = |error: std::io::Error| {
        Error::new(Code::ResourceExhausted, format!("could not start the thread lh-io-0: {error}"))
    };
    let _making = hold();
    let io = Builder::new_current_thread().thread_name("lh-io-blocking").enable_all().build().map_err(failed)?;
    let handle = io.handle().clone();
    let run = move || {
        // Threads that this one starts inherit that.
        block_signals();
        io.block_on(std::future::pending::<()>());
    };
    std::thread::Builder::new().name("lh-io-0".into()).spawn(run).map_err(failed)?;
    Ok(handle)
}

/// Keeps the program's signals off this thread: its handlers, which are foreign code, and those that it waits for elsewhere, such
/// as with `signalfd`, which would end the process here.
pub fn block_signals() {
    let mut signals = MaybeUninit::uninit();
    // SAFETY: `sigfillset` writes the whole set before it is read; the rest changes that set and this thread's mask. None of
    // them fails for a valid set and valid signal numbers.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        for signal in NOT_BLOCKED {
            libc::sigdelset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), std::ptr::null_mut());
    }
}

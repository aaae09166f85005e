//! The one long-lived thread of the harness: it starts every child process and runs the proxies.
//!
//! Children must die with the test process, however that ends, so each asks the kernel for SIGKILL on the death of its
//! parent. The kernel means the *thread* that forked, not the process. A child started from a test's own thread would
//! die when that test function returns, and one started from a pool thread when the pool shrinks. This thread
//! ends with the process only.

use std::{future::Future, io, os::unix::process::CommandExt, process::Command, sync::OnceLock, thread};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::runtime::{Builder, Handle};

use crate::{Error, error::Doing};

/// The runtime on the harness's own thread.
pub(crate) fn handle() -> Result<Handle, Error> {
    // Where no thread can be started, nothing else works either: keep that answer.
    static HANDLE: OnceLock<Result<Handle, io::ErrorKind>> = OnceLock::new();
    let start = || {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.kind())?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(std::future::pending::<()>());
        thread::Builder::new().name("leasehold-etcd".into()).spawn(run).map_err(|error| error.kind())?;
        Ok(handle)
    };
    HANDLE.get_or_init(start).clone().doing(|| "could not start the harness thread".into())
}

/// Runs `work` on the harness's thread and hands its result to a caller in any runtime.
///
/// Work goes on when the caller stops waiting; its result is dropped then, and so is a cluster that it started.
pub(crate) async fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match handle()?.spawn(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(Error::Io { doing: "the harness thread ended".into(), source: error.into() }),
        },
    }
}

/// Makes the child of `command` die with this process, however that ends. Start it on a thread that lives as long as the
/// process, such as that of `main`: the kernel takes the end of the thread for the end of the parent.
pub fn tie(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the kernel knew the wish.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

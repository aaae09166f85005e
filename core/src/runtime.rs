//! The thread that renews leases and talks to etcd: one for the process, started by the first operation.
//!
//! It is our own, so that a program that blocks its runtime, or has none, loses no lock. It never runs foreign code: what it
//! finds out goes into channels that callers wait on.

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};

use crate::{
    error::{Code, Error, Result},
    process::PerProcess,
};

/// This process's runtime: a forked child starts its own.
static RUNTIME: PerProcess<OnceCell<Handle>> = PerProcess::new();

/// The runtime's handle; starts its thread, `lh-io-0`, if this process has none yet.
pub fn handle() -> Result<Handle> {
    RUNTIME.get().get_or_try_init(start).cloned()
}

fn start() -> Result<Handle> {
    let failed =
        |error: std::io::Error| Error::new(Code::Internal, format!("could not start the thread lh-io-0: {error}"));
    let io = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = io.handle().clone();
    let run = move || io.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("lh-io-0".into()).spawn(run).map_err(failed)?;
    Ok(handle)
}

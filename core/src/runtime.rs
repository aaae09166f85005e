//! The thread that renews leases and talks to etcd: one for the process, started by the first operation.
//!
//! It is our own, so that a program that blocks its runtime, or has none, loses no lock. It never runs foreign code: what it
//! finds out goes into channels that callers wait on.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

use crate::error::{Code, Error, Result};

/// The runtime and the process that it belongs to: a forked child starts its own.
static RUNTIME: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

/// The runtime's handle; starts its thread, `lh-io-0`, if this process has none yet.
pub(crate) fn handle() -> Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, handle)) = &*runtime
        && *owner == process
    {
        return Ok(handle.clone());
    }
    let failed =
        |error: std::io::Error| Error::new(Code::Internal, format!("could not start the thread lh-io-0: {error}"));
    let io = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = io.handle().clone();
    let run = move || io.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("lh-io-0".into()).spawn(run).map_err(failed)?;
    *runtime = Some((process, handle.clone()));
    Ok(handle)
}

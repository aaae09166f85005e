//! Panics stop here: at each entry from a host and around each task. They become errors; the host lives on.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::FutureExt;
use leasehold::{Code, Error, Result};

/// Runs an entry point; a panic in it becomes [`Code::Internal`].
pub fn catch<T>(entry: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that a panic left behind is used again without its own check: handles are looked up, locks are re-entered.
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or_else(|panic| Err(error(&*panic)))
}

/// Runs something of the host's; a panic in it ends here, and the hook for panics has told of it.
pub(crate) fn contain(foreign: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(foreign));
}

/// Runs a task; a panic in it becomes [`Code::Internal`].
pub(crate) async fn catch_in_task<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(task).catch_unwind().await.unwrap_or_else(|panic| Err(error(&*panic)))
}

/// The error that tells of a panic, for hosts whose own layer catches it.
pub fn error(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(Code::Internal, format!("leasehold panicked, please report it: {}", text.unwrap_or("no message")))
}

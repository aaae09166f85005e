//! The handles as C sees them: small structs, one type for each kind, around the bridge's ids.

use std::sync::Arc;

use leasehold_bridge::{Cancel, Client, Guard, Queue, Result, client::stale, handles};

/// A client: one connection pool to an etcd cluster, and its sessions.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_client {
    /// 0 is none.
    pub id: u64,
}

/// A lock that is held. Whoever has the guard is the owner, not a thread.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_guard {
    /// 0 is none.
    pub id: u64,
}

/// A way to end blocking calls from another thread.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_cancel {
    /// 0 is none.
    pub id: u64,
}

/// Where a program with an event loop gets its callbacks.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_loop {
    /// 0 is LH_CALLBACK_THREAD.
    pub id: u64,
}

/// An asynchronous operation. Needs not be freed.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_op {
    /// 0 is none.
    pub id: u64,
}

pub(crate) fn client(handle: lh_client) -> Result<Arc<Client>> {
    handles::get(handle.id).ok_or_else(|| stale("client"))
}

pub(crate) fn guard(handle: lh_guard) -> Result<Arc<Guard>> {
    handles::get(handle.id).ok_or_else(|| stale("guard"))
}

/// 0 is none: an operation that nobody can cancel.
pub(crate) fn cancel(handle: lh_cancel) -> Result<Option<Arc<Cancel>>> {
    match handle.id {
        0 => Ok(None),
        id => handles::get(id).map(Some).ok_or_else(|| stale("cancel handle")),
    }
}

/// Of a loop of the host's, not of the callback thread.
pub(crate) fn queue(handle: lh_loop) -> Result<Arc<Queue>> {
    let queue: Arc<Queue> = handles::get(handle.id).ok_or_else(|| stale("loop"))?;
    queue.check_process()?;
    Ok(queue)
}

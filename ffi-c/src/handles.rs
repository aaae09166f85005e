//! The handles as C sees them: small structs, one type for each kind, around the bridge's ids.

use std::sync::Arc;

use leasehold_bridge::{
    Cancel, Client, Guard, OpId, Queue, Result, Sink,
    handles::{self, Handle},
};

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

/// A handle, and what it stands for.
pub(crate) trait StandsFor: Copy {
    type Kind: Handle;

    fn from_id(id: u64) -> Self;
    fn id(self) -> u64;

    /// A handle for it.
    fn new(it: impl Into<Arc<Self::Kind>>) -> Self {
        Self::from_id(handles::insert(it.into()))
    }

    /// What it stands for.
    fn get(self) -> Result<Arc<Self::Kind>> {
        handles::find(self.id())
    }

    /// Frees the handle: whoever comes second finds it gone.
    fn take(self) -> Result<Arc<Self::Kind>> {
        handles::take(self.id())
    }

    /// An operation of it, ready to be started.
    fn ready(self, begin: impl FnOnce(&Self::Kind, Sink) -> OpId) -> Result<impl FnOnce(Sink) -> OpId> {
        let it = self.get()?;
        Ok(move |sink| begin(&it, sink))
    }
}

macro_rules! stands_for {
    ($handle:ident, $kind:ty) => {
        impl StandsFor for $handle {
            type Kind = $kind;

            fn from_id(id: u64) -> Self {
                Self { id }
            }

            fn id(self) -> u64 {
                self.id
            }
        }
    };
}

stands_for!(lh_client, Client);
stands_for!(lh_guard, Guard);
stands_for!(lh_cancel, Cancel);
stands_for!(lh_loop, Queue);

impl lh_cancel {
    /// What it stands for; nothing if it is none.
    pub(crate) fn if_any(self) -> Result<Option<Arc<Cancel>>> {
        (self.id != 0).then(|| self.get()).transpose()
    }
}

impl lh_loop {
    /// The loop, if this process has made it.
    pub(crate) fn ours(self) -> Result<Arc<Queue>> {
        let queue = self.get()?;
        queue.check_process()?;
        Ok(queue)
    }
}

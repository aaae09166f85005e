//! What every language's layer over leasehold needs, and none should write again.
//!
//! A binding converts values, starts an operation and completes a future of its host; the rest is here:
//!
//! - [`Client`] and [`Guard`]: the core's, startable from any thread, safe to share and to close while they are in use.
//! - [`options`]: what a host lets its users set, each given or left to its default.
//! - [`operation`]: every call is an operation with an id. It can be cancelled, and it is completed exactly once.
//! - [`completion`]: where completions go: to a [`Waiter`] that blocks, or into a [`Queue`] that a host's loop drains on a
//!   thread of its own. The threads that renew leases never run foreign code. A guard that nobody takes is released.
//! - [`handles`]: 64-bit ids with generations for languages that cannot hold a reference. A stale id is noticed.
//! - [`fork`]: a child starts anew; what it inherited answers `FORKED`.
//! - [`panics`], [`logs`], [`shutdown`], and, with the feature `testing`, operations for tests without a server.
//!
//! What a binding can rely on, and what it must do:
//!
//! - **Each operation has exactly one last completion** ([`Completion::is_last`]), whatever happens: a panic, a client that is
//!   closed, a cancel. Only [`Client::on_state`] and [`logs::listen`] have others before it. When it arrives, the operation is
//!   no longer counted ([`live`]), and cancelling it says so.
//! - **No completion runs code of the host's.** It waits in a queue or a waiter until the host's own thread takes it. Only a
//!   queue's waker runs where it happens, as a rule on the thread that renews leases: it sets a flag or writes a byte.
//! - **Cancelling asks.** The completion still comes: `CANCELLED`, or what was reached before. A lock that is won although its
//!   acquire was cancelled is released before that is told; a guard that comes after its user has given up is dropped, which
//!   releases it. Cancelled before it starts, an operation does nothing; only a release takes effect all the same.
//! - **Freeing is no closing.** What runs keeps what it needs: a guard that is freed during a call is released after it. Close
//!   a queue when its loop ends ([`Queue::close`]): that cancels what would answer into it and ends log records into it.
//! - **The end of a hold is told once**, as released or as lost; a loss that the release finds is a loss.
//! - **In a forked child** inherited guards, waiters and queues answer `FORKED` or nothing; clients and cancels work, for what
//!   the child starts; a binding makes queues anew and listens to the log anew.
//! - **At the end of the process** [`shutdown::close_all`] takes as long as it may, and starts no thread if nothing was used. A
//!   process that ends without it leaves its locks to their leases.
//! - A binding wraps each entry in [`panics::catch`].
//!
//! It is no API for users: names and signatures change as the bindings need.

pub mod client;
pub mod completion;
pub mod fork;
pub mod guard;
pub mod handles;
pub mod live;
pub mod logs;
pub mod operation;
pub mod options;
pub mod panics;
pub mod shutdown;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::Client;
pub use completion::{Completion, Outcome, Queue, Sink, Waiter};
pub use guard::Guard;
pub use leasehold::runtime::block_signals;
pub use leasehold::{
    Claim, ClientOptions, Code, Committed, Contender, Error, Family, Leader, LocalFirst, LostReason, Metrics, Observed,
    Result, Sample, SessionState, Value,
};
pub use operation::{Cancel, OpId};
pub use options::{AcquireOptions, HostOptions};

/// The version of every package of the project.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The error of a scope inside a scope of the same name, in one thread or task, which would wait for itself for ever. Who is
/// inside what, only the host can know.
pub fn would_deadlock(name: &str) -> Error {
    let message = format!(
        "the lock {name:?} is held by a scope around this one, in the same thread or task: waiting for it would never end; \
         pass the guard down, or use another name"
    );
    Error::new(Code::WouldDeadlock, message)
}

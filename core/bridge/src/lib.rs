//! What every language's layer over leasehold needs, and none should write again.
//!
//! A binding converts values, starts an operation and completes a future of its host; the rest is here:
//!
//! - [`Client`] and [`Guard`]: the core's, startable from any thread, safe to share and to close while they are in use.
//! - [`operation`]: every call is an operation with an id. It can be cancelled, and it is completed exactly once.
//! - [`completion`]: where completions go: to a [`Waiter`] that blocks, or into a [`Queue`] that a host's loop drains on a
//!   thread of its own. The threads that renew leases never run foreign code. A guard that nobody takes is released.
//! - [`handles`]: 64-bit ids with generations for languages that cannot hold a reference. A stale id is noticed.
//! - [`fork`]: a child starts anew; what it inherited answers `FORKED`.
//! - [`panics`], [`logs`], [`shutdown`], and, with the feature `testing`, operations for tests without a server.
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
pub mod panics;
pub mod shutdown;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::{AcquireOptions, Client};
pub use completion::{Completion, Outcome, Queue, Sink, Waiter};
pub use guard::Guard;
pub use leasehold::{ClientOptions, Code, Committed, Contender, Error, LostReason, Result, SessionState};
pub use operation::{Cancel, OpId};

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

//! A distributed lock on etcd v3: leases renewed in time, waiters in the order of their revisions, fencing tokens.
//!
//! ```no_run
//! # async fn example() -> leasehold::Result<()> {
//! let client = leasehold::Client::new("http://127.0.0.1:2379")?;
//! let guard = client.lock("/lock/mylock").acquire().await?;
//! // … write somewhere, along with guard.token() …
//! guard.release().await?;
//! client.close().await
//! # }
//! ```
//!
//! [`Client`] makes [`Lock`]s, a lock gives a [`Guard`], and the guard is the proof that its owner holds the lock. What that
//! proof is worth, and what only a fencing token can add, is told in `docs/guarantees.md`.
//!
//! The modules below are the inside: state machines without I/O ([`session`], [`queue`], [`cleaner`], wired together in
//! [`hub`]) and the [`store`]s they speak to. They are public for the project's own simulator, search and tests, and may
//! change with every version.

mod client;
mod contender;
mod engine;
mod error;
mod guard;
mod lock;
mod options;
mod watch;

#[doc(hidden)]
pub mod cleaner;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod hub;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod store;

pub use client::{Client, SessionState, StateEvents};
pub use contender::Contender;
pub use error::{Code, Error, LostReason, Result};
pub use guard::{Committed, Guard, GuardedTxn};
pub use lock::{Acquiring, Lock};
pub use options::ClientOptions;

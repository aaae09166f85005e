//! A distributed lock on etcd v3: leases renewed in time, waiters in the order of their revisions, fencing tokens.

pub mod cleaner;
pub mod clock;
mod error;
pub mod hub;
pub mod queue;
pub mod session;
pub mod store;

pub use error::{Code, Error, LostReason, Result};

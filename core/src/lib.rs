//! A distributed lock on etcd v3: leases renewed in time, waiters in the order of their revisions, fencing tokens.

pub mod clock;
mod error;
pub mod store;

pub use error::{Code, Error, LostReason, Result};

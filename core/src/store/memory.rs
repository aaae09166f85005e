//! A faithful etcd inside the process.
//!
//! [`Kv`] is the data alone: etcd's rules for transactions, revisions and leases as a plain value, without clock, task or
//! chance, so that a simulator and a state search can run it. [`MemoryStore`] puts it behind [`Store`](super::Store) for
//! `memory://name`, with the real clock.
//!
//! What etcd has and this has not: history and compaction, users and roles, quotas, limits on the size of a request.

mod check;
mod kv;
mod store;

pub use kv::{Kv, matching};
pub use store::MemoryStore;

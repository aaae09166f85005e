//! The C library: handles, pointers and statuses on one side, the bridge's operations on the other.
//!
//! An entry point checks its pointers, looks up its handles and starts an operation; nothing else. Its documentation ends up
//! in `include/leasehold.h`, which is the manual: so it speaks to people who write C. `entry` is where pointers become
//! references and panics become statuses, `callbacks` where results become calls of the host's functions, and `functions` is
//! generated: the entry points that are written alike, from `interface.toml`.

#![expect(non_camel_case_types, reason = "the types have the names that they have in C")]
#![expect(clippy::missing_safety_doc, reason = "the header says once what every pointer must be")]

pub mod about;
pub mod acquire;
pub mod callbacks;
pub mod client;
pub mod contenders;
pub mod election;
pub mod entry;
pub mod error;
#[rustfmt::skip]
pub mod functions;
pub mod guard;
pub mod handles;
mod kept;
pub mod log;
pub mod options;
pub mod result;
pub mod status;
#[cfg(feature = "testing")]
pub mod testing;
pub mod txn;
pub mod writes;

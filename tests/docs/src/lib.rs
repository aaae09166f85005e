//! Keeps the documentation true: its links lead somewhere, the tests and files it names exist.
//!
//! Its Rust examples run too: `build.rs` makes a test of each.

pub mod files;
pub mod links;
pub mod pages;
pub mod unsafe_code;

//! Keeps the documentation true: its links lead somewhere, the tests it names exist.
//!
//! Its Rust examples run too: `build.rs` makes a test of each.

pub mod links;
pub mod pages;

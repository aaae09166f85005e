//! The demo of `make demo`: several processes, one queue, one real etcd.
//!
//! The demo itself is a program; what it shares with the processes that it starts, its contenders, is here. A contender is
//! any executable that speaks the [`protocol`], so another language joins in with one row of the table in
//! `src/languages.rs`.

pub mod protocol;

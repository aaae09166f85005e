//! The native half of `io.leasehold.Native`: one function for each of its methods, in the same order.
//!
//! A function converts its arguments, starts an operation of the bridge and returns the operation's id; what the operation
//! brings goes into a completion queue that Java's dispatcher thread drains (`completions`). No thread of ours is ever
//! attached to the JVM: it would keep the JVM alive, and Java code could stop renewals.

#[macro_use]
mod entries;
mod arguments;
mod calls;
mod completions;
mod failure;

//! The lock as its users know it, on a real etcd.

mod basics;
mod support;

//! The lock as its users know it, on a real etcd.

mod basics;
mod engine;
mod ghost;
mod guard;
mod kinds;
mod metrics;
mod names;
mod queue;
mod refused;
mod session;
mod several;
mod support;
mod traces;

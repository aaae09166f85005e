//! One behaviour, many languages: plays the scenarios of `scenarios/*.yaml` through the drivers of every language and checks,
//! whatever a scenario says, that nothing was held twice, out of order, left behind or forgotten.
//!
//! * [`scenario`] reads a scenario, [`expect`] substitutes its variables and compares replies with what it expects;
//! * [`actor`] speaks the protocol with one driver process, [`foreign`] with lock clients that are not ours;
//! * [`stage`] is the etcd cluster under a scenario, with its faults, [`etcd`] the runner's own access to it;
//! * [`play`] plays the steps, [`steps`] says what each of them does and [`requests`] what is asked of a driver, [`finish`] ends
//!   a play and checks what is left;
//! * [`history`] records everything, [`check`] and [`protocol`] judge it afterwards, [`machine`] says when nobody could be in time,
//!   [`cast`] chooses the languages, [`report`] prints.

pub mod actor;
pub mod cast;
pub mod check;
pub mod etcd;
pub mod expect;
pub mod finish;
pub mod foreign;
pub mod history;
pub mod machine;
pub mod play;
pub mod protocol;
pub mod report;
pub mod requests;
pub mod scenario;
pub mod stage;
pub mod steps;

use serde_json::{Map, Value};

/// A request, a reply or an event: one line of the protocol.
pub type Message = Map<String, Value>;

/// The fields of `value`, which is written as an object.
pub fn message(value: Value) -> Message {
    match value {
        Value::Object(fields) => fields,
        other => Message::from_iter([("value".to_owned(), other)]),
    }
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds: the clock of every driver's `mono_ns`.
pub fn mono_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

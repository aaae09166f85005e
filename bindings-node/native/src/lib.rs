//! The native module under the npm package `leasehold`. Private: its only user is `bindings-node/src`.
//!
//! It converts values and starts operations of [`leasehold_bridge`]. Each JavaScript environment (the main thread, or a
//! worker) has one `Environment`: a completion queue that is drained on that environment's thread.

mod client;
mod environment;
pub mod guard;
mod metrics;
#[cfg(feature = "testing")]
pub mod testing;
mod value;

use std::collections::HashMap;

use leasehold_bridge::{Code, Error, LostReason, panics};
use napi::{
    Env,
    bindgen_prelude::{Function, FunctionCallContext},
};
use napi_derive::napi;

use crate::value::Failure;

/// The version of this module: the package refuses another one than its own.
#[napi]
pub fn version() -> &'static str {
    leasehold_bridge::VERSION
}

/// The stable numbers of the errors, by their names.
#[napi]
pub fn error_numbers() -> HashMap<&'static str, i32> {
    Code::ALL.into_iter().map(|code| (code.name(), code.number())).collect()
}

/// The error of a guard that was lost for this reason.
#[napi]
pub fn lost(name: String, reason: String) -> Failure {
    match LostReason::ALL.into_iter().find(|known| known.name() == reason) {
        Some(reason) => Error::lost(&name, reason).into(),
        None => Error::new(Code::Lost, format!("the lock {name:?} was lost: {reason}")).into(),
    }
}

/// The error of a scope inside a scope of the same name.
#[napi]
pub fn would_deadlock(name: String) -> Failure {
    leasehold_bridge::would_deadlock(&name).into()
}

/// What an entry point brings, or throws: an error with the name of ours as its `code`.
type Result<T> = std::result::Result<T, napi::Error<&'static str>>;

/// Runs an entry point. Its errors and panics are thrown.
fn enter<T>(entry: impl FnOnce() -> leasehold_bridge::Result<T>) -> Result<T> {
    panics::catch(entry).map_err(|error| napi::Error::new(error.code().name(), error.message()))
}

/// A function of JavaScript that starts an operation. What every lock needs is such a function: one that napi's macros make
/// costs several times as much, as they keep records of who borrows what.
fn starter<'env>(
    env: &'env Env,
    name: &str,
    start: impl Fn(&FunctionCallContext) -> napi::Result<Result<f64>> + 'static,
) -> napi::Result<Function<'env, (), f64>> {
    env.create_function_from_closure(name, move |call| {
        start(&call)?.map_err(|error| napi::Error::from_reason(error.reason.clone()))
    })
}

/// A count, a tag or an id, as JavaScript has them.
#[expect(clippy::cast_precision_loss, reason = "they are counted from 1, and no process gets to 2^53")]
fn as_number(count: u64) -> f64 {
    count as f64
}

/// What JavaScript gave to know an operation by, or got from [`as_number`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the package counts from 1, and no process gets to 2^53"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

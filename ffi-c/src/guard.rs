//! Guards: what they say, and how they are released.

use leasehold_bridge::{OpId, Result, Sink};

use crate::{
    entry::invalid,
    handles::{StandsFor, lh_guard},
    options::span,
};

/// A size that holds every key of a guard: namespace and name of 1024 bytes each, the lease and a number.
pub const LH_KEY_SIZE: usize = 2112;

pub(crate) fn remaining(guard: lh_guard) -> Result<i64> {
    Ok(i64::try_from(guard.get()?.remaining().as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn loss_reason(guard: lh_guard) -> Result<i32> {
    Ok(guard.get()?.loss_reason().map_or(0, |reason| reason.number()))
}

pub(crate) fn key_at(guard: lh_guard, index: usize) -> Result<String> {
    let mut keys = guard.get()?.keys();
    let count = keys.len();
    if index < count {
        Ok(keys.swap_remove(index))
    } else {
        Err(invalid(format!("there is no key {index}: the hold has {count}")))
    }
}

/// Of two calls at the same time, one finds it gone.
pub(crate) fn take_and_release(guard: lh_guard) -> Result<impl FnOnce(Sink) -> OpId> {
    let taken = guard.take()?;
    Ok(move |sink| taken.release(None, sink))
}

pub(crate) fn extend(guard: lh_guard, ttl_ms: i64) -> Result<impl FnOnce(Sink) -> OpId> {
    let ttl = span(ttl_ms, "ttl_ms")?;
    guard.ready(move |guard, sink| guard.extend(ttl, None, sink))
}

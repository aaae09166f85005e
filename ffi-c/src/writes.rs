//! Writes that take effect only while a lock is held.

use leasehold_bridge::{OpId, Outcome, Result, Sink};

use crate::{
    entry::{brought, bytes},
    handles::{StandsFor, lh_guard},
    txn::{done, lh_committed, lh_txn_op, operations},
};

/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn put(
    guard: lh_guard,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let (key, value) = unsafe { (bytes(key, key_len, "key")?.to_vec(), bytes(value, value_len, "value")?.to_vec()) };
    guard.ready(|guard, sink| guard.put(key, value, None, sink))
}

/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn delete(guard: lh_guard, key: *const u8, key_len: usize) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let key = unsafe { bytes(key, key_len, "key") }?.to_vec();
    guard.ready(|guard, sink| guard.delete(key, None, sink))
}

/// # Safety
/// As [`operations`].
pub(crate) unsafe fn txn(guard: lh_guard, ops: *const lh_txn_op, count: usize) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let ops = unsafe { operations(ops, count) }?;
    guard.ready(|guard, sink| guard.txn(ops, None, sink))
}

pub(crate) fn revision(outcome: Outcome) -> Result<i64> {
    brought!(outcome, Revision)
}

pub(crate) fn existed(outcome: Outcome) -> Result<bool> {
    brought!(outcome, Flag)
}

/// For lh_committed_free.
pub(crate) fn committed(outcome: Outcome) -> Result<*mut lh_committed> {
    brought!(outcome, Committed).map(|committed| done(committed).into_c())
}

//! Writes that take effect only while a lock is held.

use std::ffi::c_void;

use leasehold_bridge::{OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::{Out, block, brought, bytes, enter},
    error::lh_error,
    handles::{StandsFor, lh_guard, lh_loop, lh_op},
    txn::{Done, lh_committed, lh_txn_op, operations},
};

/// # Safety
/// As [`bytes`].
unsafe fn put(
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
unsafe fn delete(guard: lh_guard, key: *const u8, key_len: usize) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let key = unsafe { bytes(key, key_len, "key") }?.to_vec();
    guard.ready(|guard, sink| guard.delete(key, None, sink))
}

/// # Safety
/// As [`operations`].
unsafe fn txn(guard: lh_guard, ops: *const lh_txn_op, count: usize) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let ops = unsafe { operations(ops, count) }?;
    guard.ready(|guard, sink| guard.txn(ops, None, sink))
}

/// Writes `value` under `key` (below the client's namespace) if the lock is still held, in one transaction with the check of
/// the fencing token. `revision` may be NULL. LH_LOST: nothing was written. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: it may
/// have been; it is not repeated, because a repeated write could undo a later one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_put(
    guard: lh_guard,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    revision: *mut i64,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::optional(revision);
            place.set(brought!(block(put(guard, key, key_len, value, value_len)?)?, Revision));
            Ok(())
        })
    }
}

/// Starts lh_guard_put; the callback receives result->revision. Key and value are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_put_async(
    guard: lh_guard,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || put(guard, key, key_len, value, value_len)) }
}

/// Deletes `key` (below the client's namespace) if the lock is still held. `existed` may be NULL. Statuses as lh_guard_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_delete(
    guard: lh_guard,
    key: *const u8,
    key_len: usize,
    existed: *mut bool,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::optional(existed);
            place.set(brought!(block(delete(guard, key, key_len)?)?, Flag));
            Ok(())
        })
    }
}

/// Starts lh_guard_delete; the callback receives result->existed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_delete_async(
    guard: lh_guard,
    key: *const u8,
    key_len: usize,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || delete(guard, key, key_len)) }
}

/// Reads and writes in one transaction that takes effect only if the lock is still held; etcd allows 128 operations by
/// default. `committed` may be NULL; otherwise free what it receives with lh_committed_free. Statuses as lh_guard_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_txn(
    guard: lh_guard,
    ops: *const lh_txn_op,
    count: usize,
    committed: *mut *mut lh_committed,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::optional(committed);
            let done = brought!(block(txn(guard, ops, count)?)?, Committed);
            place.set_with(|| Done::new(done).into_c());
            Ok(())
        })
    }
}

/// Starts lh_guard_txn; the callback receives result->committed. Keys and values are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_txn_async(
    guard: lh_guard,
    ops: *const lh_txn_op,
    count: usize,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || txn(guard, ops, count)) }
}

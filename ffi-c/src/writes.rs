//! Writes that take effect only while a lock is held.

use std::{ffi::c_void, ptr};

use leasehold_bridge::Outcome;

use crate::{
    callbacks::{Then, lh_callback},
    entry::{Out, block, bytes, enter, unexpected},
    error::lh_error,
    guard::do_later,
    handles::{guard as find, lh_guard, lh_loop, lh_op},
    txn::{Done, lh_committed, lh_txn_op, operations},
};

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
    let body = || {
        // SAFETY: the caller promises what the header asks for.
        let place = unsafe { Out::optional(revision) };
        let guard = find(guard)?;
        // SAFETY: as above.
        let (key, value) =
            unsafe { (bytes(key, key_len, "key")?.to_vec(), bytes(value, value_len, "value")?.to_vec()) };
        match (block(|sink| guard.put(key, value, None, sink))?, place) {
            (Outcome::Revision(revision), Some(place)) => place.set(revision),
            (Outcome::Revision(_), None) => {}
            (other, _) => return Err(unexpected(&other)),
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { enter(error, body) }
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
    let then = unsafe { Then::new(on_loop, callback, user_data, op) };
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        do_later(guard, then, error, |guard, sink| {
            let (key, value) = (bytes(key, key_len, "key")?.to_vec(), bytes(value, value_len, "value")?.to_vec());
            Ok(guard.put(key, value, None, sink))
        })
    }
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
    let body = || {
        // SAFETY: the caller promises what the header asks for.
        let place = unsafe { Out::optional(existed) };
        let guard = find(guard)?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len, "key") }?.to_vec();
        match (block(|sink| guard.delete(key, None, sink))?, place) {
            (Outcome::Flag(existed), Some(place)) => place.set(existed),
            (Outcome::Flag(_), None) => {}
            (other, _) => return Err(unexpected(&other)),
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { enter(error, body) }
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
    let then = unsafe { Then::new(on_loop, callback, user_data, op) };
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        do_later(guard, then, error, |guard, sink| {
            let key = bytes(key, key_len, "key")?.to_vec();
            Ok(guard.delete(key, None, sink))
        })
    }
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
    let body = || {
        if !committed.is_null() {
            // SAFETY: the caller promises what the header asks for.
            unsafe { committed.write(ptr::null_mut()) };
        }
        let guard = find(guard)?;
        // SAFETY: as above.
        let ops = unsafe { operations(ops, count) }?;
        match block(|sink| guard.txn(ops, None, sink))? {
            Outcome::Committed(_) if committed.is_null() => {}
            // SAFETY: as above.
            Outcome::Committed(done) => unsafe { committed.write(Done::new(done).into_c()) },
            other => return Err(unexpected(&other)),
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { enter(error, body) }
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
    let then = unsafe { Then::new(on_loop, callback, user_data, op) };
    // SAFETY: the caller promises what the header asks for.
    unsafe { do_later(guard, then, error, |guard, sink| Ok(guard.txn(operations(ops, count)?, None, sink))) }
}

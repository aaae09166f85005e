//! Elections: who leads, and what the leader proclaims. `acquire` has the campaigns.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

use leasehold_bridge::{Leader, OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::{Out, block, brought, bytes, enter, now, text},
    error::lh_error,
    handles::{StandsFor, lh_client, lh_guard, lh_loop, lh_op},
    result::c_string,
};

/// Who leads an election.
#[repr(C)]
pub struct lh_leader {
    /// Its key in etcd, namespace included.
    pub key: *const c_char,
    /// Its fencing token: the create revision of the key.
    pub token: i64,
    /// What it proclaims: `value_len` bytes.
    pub value: *const u8,
    /// See `value`.
    pub value_len: usize,
}

/// A leader and what it points to.
#[repr(C)]
pub(crate) struct Known {
    // First, so that a pointer to it is a pointer to all of it.
    as_c: lh_leader,
    _key: CString,
    _value: Vec<u8>,
}

impl Known {
    pub(crate) fn new(leader: Leader) -> Box<Self> {
        let (key, value) = (c_string(&leader.key), leader.value);
        let as_c = lh_leader { key: key.as_ptr(), token: leader.token, value: value.as_ptr(), value_len: value.len() };
        Box::new(Self { as_c, _key: key, _value: value })
    }

    pub(crate) fn as_c(&self) -> *const lh_leader {
        &raw const self.as_c
    }
}

/// # Safety
/// As [`bytes`].
unsafe fn proclaim(guard: lh_guard, value: *const u8, value_len: usize) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let value = unsafe { bytes(value, value_len, "value") }?.to_vec();
    guard.ready(move |guard, sink| guard.proclaim(value, None, sink))
}

/// # Safety
/// As [`text`].
unsafe fn leader<'a>(client: lh_client, election: *const c_char) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let election = unsafe { text(election, "election") }?;
    client.ready(move |client, sink| client.leader(election, None, sink))
}

/// Proclaims `value` instead of what was proclaimed before, if the guard still leads; for guards of lh_campaign. LH_LOST:
/// nothing was written. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: it may have been.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_proclaim(
    guard: lh_guard,
    value: *const u8,
    value_len: usize,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || proclaim(guard, value, value_len)) }
}

/// Starts lh_guard_proclaim. The value is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_proclaim_async(
    guard: lh_guard,
    value: *const u8,
    value_len: usize,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || proclaim(guard, value, value_len)) }
}

/// Asks who leads the election; `leader` receives NULL if nobody does. Free it with lh_leader_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_leader(
    client: lh_client,
    election: *const c_char,
    leader: *mut *mut lh_leader,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::new(leader, "leader")?;
            let found = brought!(block(self::leader(client, election)?)?, Leader);
            place.set(found.map_or(ptr::null_mut(), |found| Box::into_raw(Known::new(found)).cast()));
            Ok(())
        })
    }
}

/// Starts lh_client_leader; the callback receives result->leader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_leader_async(
    client: lh_client,
    election: *const c_char,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || self::leader(client, election)) }
}

/// Observes the election: the callback receives result->leader at once and at every change of the leader or of what it
/// proclaims, NULL where nobody leads; and once with is_last when the client is gone or lh_op_cancel was called
/// (LH_CANCELLED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_observe(
    client: lh_client,
    election: *const c_char,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    let prepare = || {
        // SAFETY: the caller promises what the header asks for.
        let election = unsafe { text(election, "election") }?;
        client.ready(move |client, sink| client.observe(election, None, sink))
    };
    // SAFETY: as above.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, prepare) }
}

/// Frees what lh_client_leader brought; NULL is allowed. Only once, and not what a callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_leader_free(leader: *mut lh_leader) {
    if !leader.is_null() {
        // SAFETY: it comes from `lh_client_leader`, as the header asks for.
        drop(unsafe { Box::from_raw(leader.cast::<Known>()) });
    }
}

//! Elections: who leads, and what the leader proclaims. `acquire` has the campaigns.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use leasehold_bridge::{Leader, OpId, Outcome, Result, Sink};

use crate::{
    entry::{brought, bytes, text},
    handles::{StandsFor, lh_client, lh_guard},
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
pub(crate) unsafe fn proclaim(
    guard: lh_guard,
    value: *const u8,
    value_len: usize,
) -> Result<impl FnOnce(Sink) -> OpId> {
    // SAFETY: the caller promises it.
    let value = unsafe { bytes(value, value_len, "value") }?.to_vec();
    guard.ready(move |guard, sink| guard.proclaim(value, None, sink))
}

/// # Safety
/// As [`text`].
pub(crate) unsafe fn leader<'a>(client: lh_client, election: *const c_char) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let election = unsafe { text(election, "election") }?;
    client.ready(move |client, sink| client.leader(election, None, sink))
}

/// # Safety
/// As [`text`].
pub(crate) unsafe fn observe<'a>(client: lh_client, election: *const c_char) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let election = unsafe { text(election, "election") }?;
    client.ready(move |client, sink| client.observe(election, None, sink))
}

/// For lh_leader_free; NULL is nobody.
pub(crate) fn found(outcome: Outcome) -> Result<*mut lh_leader> {
    Ok(brought!(outcome, Leader)?.map_or(ptr::null_mut(), |found| Box::into_raw(Known::new(found)).cast()))
}

/// Frees what lh_client_leader brought; NULL is allowed. Only once, and not what a callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_leader_free(leader: *mut lh_leader) {
    if !leader.is_null() {
        // SAFETY: it comes from `lh_client_leader`, as the header asks for.
        drop(unsafe { Box::from_raw(leader.cast::<Known>()) });
    }
}

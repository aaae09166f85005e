//! Elections: who leads, and what the leader proclaims. `acquire` has the campaigns.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use leasehold_bridge::{Leader, OpId, Outcome, Result, Sink};

use crate::{
    entry::{brought, bytes},
    handles::{StandsFor, lh_guard},
    kept::Kept,
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

/// A leader, its key and what it proclaims.
pub(crate) type Known = Kept<lh_leader, (CString, Vec<u8>)>;

pub(crate) fn known(leader: Leader) -> Box<Known> {
    let (key, value) = (c_string(&leader.key), leader.value);
    let as_c = lh_leader { key: key.as_ptr(), token: leader.token, value: value.as_ptr(), value_len: value.len() };
    Known::new(as_c, (key, value))
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

/// For lh_leader_free; NULL is nobody.
pub(crate) fn found(outcome: Outcome) -> Result<*mut lh_leader> {
    Ok(brought!(outcome, Leader)?.map_or(ptr::null_mut(), |found| known(found).into_c()))
}

/// Frees what lh_client_leader brought; NULL is allowed. Only once, and not what a callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_leader_free(leader: *mut lh_leader) {
    // SAFETY: it comes from `found`, as the header asks for.
    unsafe { Known::free(leader) }
}

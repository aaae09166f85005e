//! What a callback receives.

use std::{
    ffi::{CString, c_char},
    mem::size_of,
    ptr,
};

use leasehold_bridge::{Completion, Outcome, SessionState};

use crate::{
    contenders::{self, lh_contenders},
    election::{self, lh_leader},
    handles::{StandsFor, lh_guard, lh_op},
    status::{OK, lh_state},
    txn::{self, lh_committed},
};

/// The result of an asynchronous operation. Each operation sets what it says, and leaves the rest 0 or NULL.
#[repr(C)]
pub struct lh_result {
    /// How much of this struct the library knows.
    pub size: usize,
    /// The operation.
    pub op: lh_op,
    /// LH_OK, or what went wrong.
    pub status: i32,
    /// Why a lock was lost: a number of lh_reason, or 0.
    pub reason: i32,
    /// What went wrong, for people, or a log record; never NULL.
    pub message: *const c_char,
    /// Nothing more comes for this operation: the time to free what user_data points to.
    pub is_last: bool,
    /// Of lh_guard_delete_async: whether the key existed.
    pub existed: bool,
    /// Of lh_client_on_state: a number of lh_state.
    pub state: i32,
    /// Of lh_acquire_async and its like: the guard, which is yours to release.
    pub guard: lh_guard,
    /// Of lh_guard_put_async: the revision of the write.
    pub revision: i64,
    /// Of lh_client_queue_async: everybody in the queue. Not to be freed.
    pub contenders: *const lh_contenders,
    /// Of lh_guard_txn_async: what the transaction did. Not to be freed.
    pub committed: *const lh_committed,
    /// Of lh_log_listen: a number of lh_level.
    pub level: i32,
    /// Of lh_log_listen: the module that the record in `message` comes from.
    pub target: *const c_char,
    /// Of lh_client_leader_async and lh_client_observe: who leads; NULL if nobody does. Not to be freed.
    pub leader: *const lh_leader,
    /// Of lh_client_observe: whether there may have been other leaders or proclamations since the result before, of which
    /// nobody knows, because the connection was lost or the callbacks did not keep up.
    pub after_gap: bool,
}

/// Calls `give` with a result that lives as long as that.
pub(crate) fn with_result(number: u64, completion: Completion, give: impl FnOnce(&lh_result)) {
    let mut result = lh_result {
        size: size_of::<lh_result>(),
        op: lh_op { id: number },
        status: OK,
        reason: 0,
        message: c"".as_ptr(),
        is_last: completion.is_last,
        existed: false,
        state: 0,
        guard: lh_guard::default(),
        revision: 0,
        contenders: ptr::null(),
        committed: ptr::null(),
        level: 0,
        target: ptr::null(),
        leader: ptr::null(),
        after_gap: false,
    };
    // What the result points to until `give` returns.
    let (message, target, contenders, committed, leader);
    match completion.result {
        Err(error) => {
            message = c_string(error.message());
            result.message = message.as_ptr();
            result.status = error.code().number();
            result.reason = error.reason().map_or(0, |reason| reason.number());
        }
        Ok(Outcome::Guard(guard)) => result.guard = lh_guard::new(guard),
        Ok(Outcome::Flag(existed)) => result.existed = existed,
        Ok(Outcome::Revision(revision)) => result.revision = revision,
        Ok(Outcome::Contenders(found)) => {
            contenders = contenders::list(found);
            result.contenders = contenders.as_c();
        }
        Ok(Outcome::Committed(done)) => {
            committed = txn::done(done);
            result.committed = committed.as_c();
        }
        Ok(Outcome::Leader(Some(found))) => {
            leader = election::known(found);
            result.leader = leader.as_c();
        }
        Ok(Outcome::Observed(observed)) => {
            result.after_gap = observed.is_after_gap;
            if let Some(found) = observed.leader {
                leader = election::known(found);
                result.leader = leader.as_c();
            }
        }
        Ok(Outcome::Lost(reason)) => result.reason = reason.number(),
        Ok(Outcome::State(state)) => (result.state, result.reason) = numbers(state),
        Ok(Outcome::Log(record)) => {
            (message, target) = (c_string(&record.message), c_string(record.target));
            (result.message, result.target) = (message.as_ptr(), target.as_ptr());
            result.level = record.level as i32;
        }
        Ok(Outcome::Text(text)) => {
            message = c_string(&text);
            result.message = message.as_ptr();
        }
        // Done and Released say nothing more, and neither does what a later bridge may bring.
        Ok(_) => {}
    }
    give(&result);
}

fn numbers(state: SessionState) -> (i32, i32) {
    match state {
        SessionState::Ok => (lh_state::LH_STATE_OK as i32, 0),
        SessionState::Lost(reason) => (lh_state::LH_STATE_LOST as i32, reason.number()),
        // A state that is not known here is no reason to trust the session less than that.
        _ => (lh_state::LH_STATE_SUSPECT as i32, 0),
    }
}

/// A text for C. What cannot be said there, NUL, is left out.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

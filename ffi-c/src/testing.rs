//! Operations for the tests of this layer: no server is needed, and things go wrong on purpose.

use std::{ffi::c_void, ptr};

use leasehold_bridge::testing::{self, Stage};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::now,
    error::lh_error,
    handles::{lh_loop, lh_op},
};

/// Panics: 0 in the entry point, 1 within the operation's start, 2 in its task, 3 later in it, 4 in the task's drop.
///
/// # Safety
/// `error` is NULL, or points to memory for an `lh_error`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_testing_panic(stage: i32, error: *mut lh_error) -> i32 {
    let stage = match stage {
        0 => Stage::Start,
        1 => Stage::Work,
        2 => Stage::Task,
        3 => Stage::Later,
        _ => Stage::Drop,
    };
    // SAFETY: the caller promises it.
    unsafe { now(error, || Ok(|sink| testing::panic(stage, sink))) }
}

/// Fails with a status.
///
/// # Safety
/// As [`lh_testing_panic`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_testing_fail(status: i32, error: *mut lh_error) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { now(error, || Ok(|sink| testing::fail(status, sink))) }
}

/// Starts an operation that is never over unless it is cancelled.
///
/// # Safety
/// `op` is NULL, or points to memory for an `lh_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_testing_never_async(
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
) -> i32 {
    // SAFETY: the caller promises it, and NULL is allowed.
    unsafe {
        later(Then::new(on_loop, callback, user_data, op), ptr::null_mut(), || Ok(|sink| testing::never(None, sink)))
    }
}

/// Starts an operation that is over at once.
///
/// # Safety
/// As [`lh_testing_never_async`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_testing_echo_async(
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
) -> i32 {
    // SAFETY: the caller promises it, and NULL is allowed.
    unsafe {
        let then = Then::new(on_loop, callback, user_data, op);
        later(then, ptr::null_mut(), || Ok(|sink| testing::echo("echo".into(), sink)))
    }
}

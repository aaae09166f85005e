//! Acquiring a lock.

use std::ffi::{c_char, c_void};

use leasehold_bridge::{AcquireOptions, OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::{Out, block, enter, options, text},
    error::lh_error,
    handles::{StandsFor, lh_client, lh_guard, lh_loop, lh_op},
    options::lh_acquire_opts,
};

/// # Safety
/// `name` and `opts` are what [`text`] and [`options`] ask for.
unsafe fn acquire<'a>(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let (name, opts) = unsafe { (text(name, "name")?, options(opts)?) };
    let (options, cancel) = match opts {
        Some(opts) => (opts.to_bridge()?, opts.cancel.if_any()?),
        None => (AcquireOptions::default(), None),
    };
    client.ready(move |client, sink| client.acquire(name, &options, cancel.as_deref(), sink))
}

/// Acquires the lock `name` (1 to 1024 bytes) and blocks until it is ours: in the order of the queue, for as long as
/// opts->wait_ms says; NULL opts wait for ever. LH_NOT_ACQUIRED when the wait limit passed or a try found it taken;
/// LH_CANCELLED when opts->cancel was fired; LH_UNAVAILABLE or LH_DEADLINE_EXCEEDED if the queue could not be joined within
/// the request timeout. Whoever holds the lock already waits for himself: locks are not re-entrant. Give the guard to
/// lh_release, or to lh_guard_release and lh_guard_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_acquire(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::new(guard, "guard")?;
            let won = block(acquire(client, name, opts)?)?.into_guard()?;
            place.set(lh_guard::new(won));
            Ok(())
        })
    }
}

/// Starts lh_acquire and returns at once; the callback receives result->guard. Cancelled by lh_op_cancel, or opts->cancel. A
/// status other than LH_OK here means that nothing was started and the callback is never called; so with all functions
/// whose name ends with _async. The callback may be called before this function returns. `op` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_acquire_async(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || acquire(client, name, opts)) }
}

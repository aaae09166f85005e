//! Cancel handles: how another thread ends a blocking call.

use std::ptr;

use leasehold_bridge::Cancel;

use crate::{
    entry::{Out, enter},
    handles::{StandsFor, lh_cancel},
};

/// Makes a cancel handle, to be given to acquires in lh_acquire_opts.cancel, any number of them. Free it with
/// lh_cancel_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_cancel_new(cancel: *mut lh_cancel) -> i32 {
    let body = || {
        // SAFETY: the caller promises what the header asks for.
        let place = unsafe { Out::new(cancel, "cancel") }?;
        place.set(lh_cancel::new(Cancel::new()));
        Ok(())
    };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Ends every acquire that was or will be started with this handle, from any thread: each withdraws from its queue in etcd
/// and returns LH_CANCELLED, or LH_OK with the guard if it had won before. Stays fired. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn lh_cancel_fire(cancel: lh_cancel) -> i32 {
    let body = || {
        cancel.get()?.cancel();
        Ok(())
    };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Frees a cancel handle. Acquires that were started with it go on, and nobody can end them any more.
#[unsafe(no_mangle)]
pub extern "C" fn lh_cancel_free(cancel: lh_cancel) -> i32 {
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), || cancel.take().map(drop)) }
}

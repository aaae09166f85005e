//! Guards: what they say, and how they are released.

use std::{
    ffi::{c_char, c_void},
    ptr,
};

use leasehold_bridge::{Guard, OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::{Out, copy_text, enter, invalid, now},
    error::lh_error,
    handles::{StandsFor, lh_guard, lh_loop, lh_op},
    options::span,
};

/// Answers a question about a guard that needs nobody else.
///
/// # Safety
/// `place` is NULL, or points to memory for a `T`.
unsafe fn tell<T>(guard: lh_guard, place: *mut T, what: &str, ask: impl FnOnce(&Guard) -> T) -> i32 {
    let body = || {
        // SAFETY: the caller promises it.
        let place = unsafe { Out::new(place, what) }?;
        place.set(ask(&*guard.get()?));
        Ok(())
    };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Copies a text of a guard to a buffer.
///
/// # Safety
/// As [`copy_text`].
unsafe fn copy(
    guard: lh_guard,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
    ask: impl FnOnce(&Guard) -> String,
) -> i32 {
    // SAFETY: the caller promises it.
    let body = || unsafe { copy_text(&ask(&*guard.get()?), buffer, size, needed) };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// The fencing token: greater than that of every earlier owner of the same name. Send it along with every write that the
/// lock protects, and let the receiver refuse a smaller one than it has seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_token(guard: lh_guard, token: *mut i64) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, token, "token", Guard::token) }
}

/// Tells holds apart that share a token: with local_first, owners of one place in the queue; otherwise always 0. Owners
/// compare the pair of token and sequence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_sequence(guard: lh_guard, sequence: *mut u64) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, sequence, "sequence", Guard::sequence) }
}

/// Whether the lock is certainly still held. Asks nobody: it compares the lease's deadline with the clock, so it is right
/// also at the first call after the process was frozen. The lock can be lost the moment after: what must not happen twice
/// needs the token at its receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_held(guard: lh_guard, held: *mut bool) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, held, "held", Guard::is_held) }
}

/// How many milliseconds the lock is certainly still held if no renewal succeeds from now on; 0 if it is lost or released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_remaining(guard: lh_guard, remaining_ms: *mut i64) -> i32 {
    let ask = |guard: &Guard| i64::try_from(guard.remaining().as_millis()).unwrap_or(i64::MAX);
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, remaining_ms, "remaining_ms", ask) }
}

/// Why the lock is not held any more: a number of lh_reason; 0 while it is held, and if it was released in time. Asks nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_loss_reason(guard: lh_guard, reason: *mut i32) -> i32 {
    let ask = |guard: &Guard| guard.loss_reason().map_or(0, |reason| reason.number());
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, reason, "reason", ask) }
}

/// Copies the name of the lock to `buffer` of `size` bytes. `needed`, if not NULL, receives how many it takes, the NUL
/// included; LH_INVALID_ARGUMENT if they do not fit. So with the key and the lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_name(guard: lh_guard, buffer: *mut c_char, size: usize, needed: *mut usize) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { copy(guard, buffer, size, needed, |guard| guard.name().to_owned()) }
}

/// Copies the key in etcd that stands for this hold, namespace included; see lh_guard_name. LH_KEY_SIZE bytes are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_key(guard: lh_guard, buffer: *mut c_char, size: usize, needed: *mut usize) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { copy(guard, buffer, size, needed, Guard::key) }
}

/// Counts the keys of the hold: one for each name of lh_acquire_all, otherwise 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_key_count(guard: lh_guard, count: *mut usize) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { tell(guard, count, "count", |guard| guard.keys().len()) }
}

/// Copies one of the keys of lh_acquire_all, in the order of the names, from 0; see lh_guard_key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_key_at(
    guard: lh_guard,
    index: usize,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    let body = || {
        let keys = guard.get()?.keys();
        let key =
            keys.get(index).ok_or_else(|| invalid(format!("there is no key {index}: the hold has {}", keys.len())))?;
        // SAFETY: the caller promises what the header asks for.
        unsafe { copy_text(key, buffer, size, needed) }
    };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Copies the id of the lease that keeps the key alive, in lower-case hexadecimal as etcd's own tools print it; see
/// lh_guard_name. 17 bytes are enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_lease(guard: lh_guard, buffer: *mut c_char, size: usize, needed: *mut usize) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { copy(guard, buffer, size, needed, Guard::lease) }
}

/// A size that holds every key of a guard: namespace and name of 1024 bytes each, the lease and a number.
pub const LH_KEY_SIZE: usize = 2112;

fn release(guard: lh_guard) -> Result<impl FnOnce(Sink) -> OpId> {
    guard.ready(|guard, sink| guard.release(None, sink))
}

fn extend(guard: lh_guard, ttl_ms: i64) -> Result<impl FnOnce(Sink) -> OpId> {
    let ttl = span(ttl_ms, "ttl_ms")?;
    guard.ready(move |guard, sink| guard.extend(ttl, None, sink))
}

/// Releases the lock and blocks until etcd has confirmed it. LH_LOST if it was lost before: what it protected may have been
/// done by somebody else meanwhile. LH_NOT_HELD if it was released before. LH_DEADLINE_EXCEEDED or LH_UNAVAILABLE: the hold
/// is over here, and its key is removed in the background. The handle stays until lh_guard_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_release(guard: lh_guard, error: *mut lh_error) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || release(guard)) }
}

/// Starts lh_guard_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_release_async(
    guard: lh_guard,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || release(guard)) }
}

/// Frees the handle of a guard, when nothing uses it any more. A lock that was not released is released in the background.
#[unsafe(no_mangle)]
pub extern "C" fn lh_guard_free(guard: lh_guard) -> i32 {
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), || guard.take().map(drop)) }
}

/// lh_guard_release and lh_guard_free in one call. The handle is freed whatever the status says, so a second call is
/// answered with LH_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_release(guard: lh_guard, error: *mut lh_error) -> i32 {
    let take_it = || {
        // Of two calls at the same time, one finds it gone.
        let taken = guard.take()?;
        Ok(move |sink| taken.release(None, sink))
    };
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, take_it) }
}

/// Makes the hold last at least `ttl_ms` from now (2000 to 30 days) and waits for etcd's word on it. For a hold that is
/// renewed, this is a renewal at once, and so a proof; one without renewal then ends that much later. LH_LOST if it is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_extend(guard: lh_guard, ttl_ms: i64, error: *mut lh_error) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || extend(guard, ttl_ms)) }
}

/// Starts lh_guard_extend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_extend_async(
    guard: lh_guard,
    ttl_ms: i64,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || extend(guard, ttl_ms)) }
}

/// Tells when the hold ends: the callback is called once, with result->reason when the lock is lost, or with a reason of 0
/// when it was released or its handle freed. LH_CANCELLED after lh_op_cancel. It comes from a timer of the library, even
/// when etcd cannot be reached; but your thread may be late: check lh_guard_held before a write that matters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_guard_on_lost(
    guard: lh_guard,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || guard.ready(Guard::ended)) }
}

//! Acquiring: one lock, several at once, and the lead of an election. Each has a form that tries, and forms that call back.

use std::ffi::{c_char, c_void};

use leasehold_bridge::{AcquireOptions, Cancel, Claim, OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    entry::{Out, block, bytes, enter, invalid, items, options, text},
    error::lh_error,
    handles::{StandsFor, lh_client, lh_guard, lh_loop, lh_op},
    options::{claim, lh_acquire_opts, lh_wanted},
};

/// How an acquire was asked for.
#[derive(Clone, Copy)]
enum Form {
    Wait,
    Try,
}

/// What a host said about an acquire, beside the claim of a single name.
struct Given {
    options: AcquireOptions,
    cancel: Option<std::sync::Arc<Cancel>>,
    claim: Claim,
}

/// # Safety
/// As [`options`].
unsafe fn given(opts: *const lh_acquire_opts, form: Form) -> Result<Given> {
    // SAFETY: the caller promises it.
    let opts = unsafe { options(opts) }?.unwrap_or_default();
    Ok(Given {
        options: opts.to_bridge(matches!(form, Form::Try))?,
        cancel: opts.cancel.if_any()?,
        claim: claim(opts.kind, opts.permits, opts.limit)?,
    })
}

/// # Safety
/// `name` and `opts` are what [`text`] and [`options`] ask for.
unsafe fn one<'a>(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
    form: Form,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let (name, given) = unsafe { (text(name, "name")?, given(opts, form)?) };
    client.ready(move |client, sink| {
        client.acquire(&[(name, given.claim)], &given.options, given.cancel.as_deref(), sink)
    })
}

/// # Safety
/// `wanted` and `opts` are what [`items`] and [`options`] ask for, each name what [`text`] does.
unsafe fn all<'a>(
    client: lh_client,
    wanted: *const lh_wanted,
    count: usize,
    opts: *const lh_acquire_opts,
    form: Form,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let (wanted, given) = unsafe { (items(wanted, count, "wanted")?, given(opts, form)?) };
    if given.claim != Claim::Exclusive {
        return Err(invalid("with several names, each says its kind in lh_wanted: leave that of the options 0"));
    }
    let name = |one: &lh_wanted| {
        // SAFETY: the caller promises it.
        Ok((unsafe { text(one.name, "name") }?, claim(one.kind, one.permits, one.limit)?))
    };
    let names: Vec<(&str, Claim)> = wanted.iter().map(name).collect::<Result<_>>()?;
    client.ready(move |client, sink| client.acquire(&names, &given.options, given.cancel.as_deref(), sink))
}

/// # Safety
/// `election`, `value` and `opts` are what [`text`], [`bytes`] and [`options`] ask for.
unsafe fn campaign<'a>(
    client: lh_client,
    election: *const c_char,
    value: *const u8,
    value_len: usize,
    opts: *const lh_acquire_opts,
    form: Form,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let (election, value, given) =
        unsafe { (text(election, "election")?, bytes(value, value_len, "value")?, given(opts, form)?) };
    if given.claim != Claim::Exclusive {
        return Err(invalid("an election has one leader: leave the kind of the options 0"));
    }
    client.ready(move |client, sink| client.campaign(election, value, &given.options, given.cancel.as_deref(), sink))
}

/// The blocking form of what brings a guard.
///
/// # Safety
/// `guard` is NULL or points to memory for an `lh_guard`, `error` is NULL or points to memory for an `lh_error`.
unsafe fn won<B: FnOnce(Sink) -> OpId>(
    guard: *mut lh_guard,
    error: *mut lh_error,
    prepare: impl FnOnce() -> Result<B>,
) -> i32 {
    // SAFETY: the caller promises it.
    unsafe {
        enter(error, || {
            let place = Out::new(guard, "guard")?;
            place.set(lh_guard::new(block(prepare()?)?.into_guard()?));
            Ok(())
        })
    }
}

/// Acquires the lock `name` (1 to 1024 bytes) and blocks until it is ours: in the order of the queue, for as long as
/// opts->wait_ms says; by default for ever. LH_NOT_ACQUIRED when the wait limit passed; LH_CANCELLED when opts->cancel was
/// fired; LH_UNAVAILABLE or LH_DEADLINE_EXCEEDED if the queue could not be joined within the request timeout;
/// LH_LIMIT_MISMATCH where others count its permits otherwise. Whoever holds the lock already waits for himself: locks are
/// not re-entrant. Give the guard to lh_release, or to lh_guard_release and lh_guard_free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_acquire(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || one(client, name, opts, Form::Wait)) }
}

/// Starts lh_acquire and returns at once; the callback receives result->guard. Cancelled by lh_op_cancel, or opts->cancel. A
/// status other than LH_OK here means that nothing was started and the callback is never called; so with all functions
/// whose name ends with _async. The callback may be called before this function returns. `op` may be NULL.
#[must_use]
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
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || one(client, name, opts, Form::Wait)) }
}

/// Acquires the lock `name` if it is free: nobody holds it or waits for it who is in the way. Otherwise LH_NOT_ACQUIRED, and
/// nothing is left in the queue. opts->wait_ms stays 0. The rest as lh_acquire.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_acquire(
    client: lh_client,
    name: *const c_char,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || one(client, name, opts, Form::Try)) }
}

/// Starts lh_try_acquire; the callback receives result->guard.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_acquire_async(
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
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || one(client, name, opts, Form::Try)) }
}

/// Acquires up to 32 locks at once, all or none, and blocks until they are ours. Whoever acquires several names together
/// never waits in a circle with others who do, in whatever order they name them. One guard, with one token, stands for all:
/// they are lost and released together. Who holds a lock and asks for another one can still wait in a circle. Statuses as
/// lh_acquire; a name that is given twice is LH_INVALID_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_acquire_all(
    client: lh_client,
    wanted: *const lh_wanted,
    count: usize,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || all(client, wanted, count, opts, Form::Wait)) }
}

/// Starts lh_acquire_all; the callback receives result->guard.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_acquire_all_async(
    client: lh_client,
    wanted: *const lh_wanted,
    count: usize,
    opts: *const lh_acquire_opts,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        later(Then::new(on_loop, callback, user_data, op), error, || all(client, wanted, count, opts, Form::Wait))
    }
}

/// Acquires up to 32 locks if all of them are free; otherwise LH_NOT_ACQUIRED. See lh_acquire_all and lh_try_acquire.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_acquire_all(
    client: lh_client,
    wanted: *const lh_wanted,
    count: usize,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || all(client, wanted, count, opts, Form::Try)) }
}

/// Starts lh_try_acquire_all; the callback receives result->guard.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_acquire_all_async(
    client: lh_client,
    wanted: *const lh_wanted,
    count: usize,
    opts: *const lh_acquire_opts,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || all(client, wanted, count, opts, Form::Try)) }
}

/// Campaigns in the election and blocks until it is won. `value` is the proclamation, which observers see while the guard
/// leads; lh_guard_proclaim changes it. The guard is one like any other: lh_release resigns. Together with Go's Election and
/// `etcdctl elect`. Statuses as lh_acquire.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_campaign(
    client: lh_client,
    election: *const c_char,
    value: *const u8,
    value_len: usize,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || campaign(client, election, value, value_len, opts, Form::Wait)) }
}

/// Starts lh_campaign; the callback receives result->guard. The value is copied.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_campaign_async(
    client: lh_client,
    election: *const c_char,
    value: *const u8,
    value_len: usize,
    opts: *const lh_acquire_opts,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    let prepare = || {
        // SAFETY: the caller promises what the header asks for.
        unsafe { campaign(client, election, value, value_len, opts, Form::Wait) }
    };
    // SAFETY: as above.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, prepare) }
}

/// Leads the election if nobody leads or campaigns; otherwise LH_NOT_ACQUIRED. See lh_campaign and lh_try_acquire.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_campaign(
    client: lh_client,
    election: *const c_char,
    value: *const u8,
    value_len: usize,
    opts: *const lh_acquire_opts,
    guard: *mut lh_guard,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { won(guard, error, || campaign(client, election, value, value_len, opts, Form::Try)) }
}

/// Starts lh_try_campaign; the callback receives result->guard. The value is copied.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_try_campaign_async(
    client: lh_client,
    election: *const c_char,
    value: *const u8,
    value_len: usize,
    opts: *const lh_acquire_opts,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    let prepare = || {
        // SAFETY: the caller promises what the header asks for.
        unsafe { campaign(client, election, value, value_len, opts, Form::Try) }
    };
    // SAFETY: as above.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, prepare) }
}

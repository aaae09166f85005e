//! Clients: opening, closing, and what they do beside acquiring.

use std::{
    ffi::{c_char, c_void},
    ptr,
};

use leasehold_bridge::{Client, HostOptions, OpId, Result, Sink};

use crate::{
    callbacks::{Then, later, lh_callback},
    contenders::{List, lh_contenders},
    entry::{Out, block, brought, copy_text, enter, now, options, text},
    error::lh_error,
    handles::{StandsFor, lh_client, lh_loop, lh_op},
    options::lh_client_opts,
};

fn ping(client: lh_client) -> Result<impl FnOnce(Sink) -> OpId> {
    client.ready(|client, sink| client.ping(None, sink))
}

/// # Safety
/// As [`text`].
unsafe fn queue<'a>(client: lh_client, name: *const c_char) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let name = unsafe { text(name, "name") }?;
    client.ready(move |client, sink| client.queue(name, None, sink))
}

/// # Safety
/// As [`text`].
unsafe fn force_release<'a>(
    client: lh_client,
    name: *const c_char,
    token: i64,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let name = unsafe { text(name, "name") }?;
    client.ready(move |client, sink| client.force_release(name, token, None, sink))
}

/// Opens a client. `url` is one endpoint or several, separated by commas: "http://host:port" or "https://host:port"; options
/// can follow as in "…?ttl=10s&namespace=/shop". "memory://name" is a store inside this process, for unit tests.
/// No connection is opened and no thread started before the first operation: to check the cluster, call lh_client_ping.
/// LH_INVALID_ARGUMENT names the option that is wrong. Give the client to lh_close in the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_open(
    url: *const c_char,
    opts: *const lh_client_opts,
    client: *mut lh_client,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::new(client, "client")?;
            let url = text(url, "url")?.to_owned();
            let given = options(opts)?.map_or_else(|| Ok(HostOptions::default()), |opts| opts.to_bridge())?;
            place.set(lh_client::new(Client::open(HostOptions { url, ..given }.try_into()?)?));
            Ok(())
        })
    }
}

/// Closes a client and blocks until that is done: releases everything that it holds or waits for, and revokes its leases.
/// Its guards are lost with LH_LOST_CLIENT_CLOSED, operations under way end with LH_CLOSED, and so does all that comes
/// later. Bounded by the request timeout. Closing twice is no error; the handle stays until lh_client_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_close(client: lh_client, error: *mut lh_error) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || client.ready(Client::close)) }
}

/// Starts lh_client_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_close_async(
    client: lh_client,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || client.ready(Client::close)) }
}

/// Frees the handle of a client. Guards and operations of it go on; when none is left, what it has in etcd is removed in
/// the background.
#[unsafe(no_mangle)]
pub extern "C" fn lh_client_free(client: lh_client) -> i32 {
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), || client.take().map(drop)) }
}

/// lh_client_close and lh_client_free in one call. The handle is freed whatever the status says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_close(client: lh_client, error: *mut lh_error) -> i32 {
    let body = || {
        let closed = block(client.ready(Client::close)?);
        client.take().and(closed).map(drop)
    };
    // SAFETY: the caller promises what the header asks for.
    unsafe { enter(error, body) }
}

/// Asks etcd for a sign of life: a read that a majority of the cluster has confirmed. LH_UNAVAILABLE or
/// LH_DEADLINE_EXCEEDED if there is none within the request timeout, LH_UNAUTHENTICATED if etcd refuses us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_ping(client: lh_client, error: *mut lh_error) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || ping(client)) }
}

/// Starts lh_client_ping.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_ping_async(
    client: lh_client,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || ping(client)) }
}

/// Who the client says it is in the queue: copies that to `buffer` of `size` bytes. `needed`, if not NULL, receives how many
/// it takes, the NUL included; LH_INVALID_ARGUMENT if they do not fit. 257 always do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_identity(
    client: lh_client,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    let body = || unsafe { copy_text(&client.get()?.identity(), buffer, size, needed) };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Copies what the client has counted and timed, as text in the format of OpenMetrics, to `buffer` of `size` bytes. `needed`,
/// if not NULL, receives how many it takes, the NUL included; LH_INVALID_ARGUMENT if they do not fit. Asks nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_metrics(
    client: lh_client,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    let body = || unsafe { copy_text(&client.get()?.metrics().to_string(), buffer, size, needed) };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}

/// Lists everybody in the queue of the lock `name`, in its order, foreign clients included. Free the list with
/// lh_contenders_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_queue(
    client: lh_client,
    name: *const c_char,
    contenders: *mut *mut lh_contenders,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe {
        enter(error, || {
            let place = Out::new(contenders, "contenders")?;
            let found = brought!(block(queue(client, name)?)?, Contenders);
            place.set(List::new(found).into_c());
            Ok(())
        })
    }
}

/// Starts lh_client_queue; the callback receives result->contenders.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_queue_async(
    client: lh_client,
    name: *const c_char,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || queue(client, name)) }
}

/// Takes the lock `name`, or the place in its queue, away from the contender with this token, whoever it is: for operators.
/// Its owner may still be at work; only fencing tokens keep its late writes out. LH_NOT_HELD if nobody has this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_force_release(
    client: lh_client,
    name: *const c_char,
    token: i64,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { now(error, || force_release(client, name, token)) }
}

/// Starts lh_client_force_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_force_release_async(
    client: lh_client,
    name: *const c_char,
    token: i64,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || force_release(client, name, token)) }
}

/// Listens to the state of the client's sessions: the callback receives result->state and result->reason at every change,
/// and once with is_last when the client is gone or lh_op_cancel was called (LH_CANCELLED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_client_on_state(
    client: lh_client,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: *mut lh_op,
    error: *mut lh_error,
) -> i32 {
    // SAFETY: the caller promises what the header asks for.
    unsafe { later(Then::new(on_loop, callback, user_data, op), error, || client.ready(Client::on_state)) }
}

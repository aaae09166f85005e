//! Clients: opening, closing, and what they do beside acquiring.

use std::ffi::c_char;

use leasehold_bridge::{Client, HostOptions, OpId, Result, Sink};

use crate::{
    entry::{Out, block, enter, options, text},
    error::lh_error,
    handles::{StandsFor, lh_client},
    options::lh_client_opts,
};

/// An operation of a client that is about one name.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn named<'a>(
    client: lh_client,
    name: *const c_char,
    what: &str,
    begin: impl FnOnce(&Client, &str, Sink) -> OpId + 'a,
) -> Result<impl FnOnce(Sink) -> OpId + 'a> {
    // SAFETY: the caller promises it.
    let name = unsafe { text(name, what) }?;
    client.ready(move |client, sink| begin(client, name, sink))
}

/// Whatever the closing says, the handle is gone.
pub(crate) fn close(client: lh_client) -> Result<()> {
    let closed = block(client.ready(Client::close)?);
    client.take().and(closed).map(drop)
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

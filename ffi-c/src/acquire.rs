//! Acquiring: one lock, several at once, and the lead of an election. Each can try, too. interface.toml has the functions.

use std::ffi::c_char;

use leasehold_bridge::{AcquireOptions, Cancel, Claim, OpId, Outcome, Result, Sink};

use crate::{
    entry::{bytes, invalid, items, options, text},
    handles::{StandsFor, lh_client, lh_guard},
    options::{claim, lh_acquire_opts, lh_wanted},
};

/// How an acquire was asked for.
#[derive(Clone, Copy)]
pub(crate) enum Form {
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
pub(crate) unsafe fn one<'a>(
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
pub(crate) unsafe fn all<'a>(
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
pub(crate) unsafe fn campaign<'a>(
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

pub(crate) fn won(outcome: Outcome) -> Result<lh_guard> {
    outcome.into_guard().map(lh_guard::new)
}

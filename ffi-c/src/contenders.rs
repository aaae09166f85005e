//! A queue, as C reads it.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use leasehold_bridge::{Contender, Outcome, Result};

use crate::{entry::brought, kept::Kept, options::numbers, result::c_string};

/// Somebody in the queue of a lock.
#[repr(C)]
pub struct lh_contender {
    /// Its key in etcd, namespace included.
    pub key: *const c_char,
    /// Its fencing token: the create revision of the key.
    pub token: i64,
    /// Its lease, in lower-case hexadecimal. NULL is a key that never ends by itself: somebody wrote it by hand.
    pub lease: *const c_char,
    /// Who it says it is; NULL if it does not.
    pub identity: *const c_char,
    /// The host it runs on; NULL if it does not say.
    pub host: *const c_char,
    /// Its process there; 0 if it does not say.
    pub pid: u32,
    /// Whether it is no client of leasehold but, say, `etcdctl lock`.
    pub foreign: bool,
    /// Since when it waits or holds, in UTC (RFC 3339); NULL if it does not say.
    pub since: *const c_char,
    /// The version of leasehold that it uses; NULL if it does not say.
    pub version: *const c_char,
    /// What it claims: a number of lh_kind.
    pub kind: i32,
    /// With LH_PERMITS: how many; otherwise 0.
    pub permits: u32,
    /// With LH_PERMITS: how many there are in all; otherwise 0.
    pub limit: u32,
    /// Whether it holds the lock; otherwise it waits.
    pub holds: bool,
}

/// Everybody in the queue of a lock, in its order: those who hold it first.
#[repr(C)]
pub struct lh_contenders {
    /// How many.
    pub count: usize,
    /// Each of them.
    pub items: *const *const lh_contender,
}

/// The list, its pointers, what these point to, and the texts of that.
pub(crate) type List = Kept<lh_contenders, (Vec<*const lh_contender>, Vec<lh_contender>, Vec<CString>)>;

pub(crate) fn list(contenders: Vec<Contender>) -> Box<List> {
    let mut texts: Vec<CString> = Vec::new();
    let mut keep = |text: Option<&str>| {
        // What the CString points to stays where it is when the vector grows.
        text.map_or(ptr::null(), |text| {
            let text = c_string(text);
            let pointer = text.as_ptr();
            texts.push(text);
            pointer
        })
    };
    let items: Vec<_> = contenders
        .iter()
        .map(|contender| (contender, numbers(contender.claim)))
        .map(|(contender, (kind, permits, limit))| lh_contender {
            key: keep(Some(&contender.key)),
            token: contender.token,
            lease: keep(contender.lease.as_deref()),
            identity: keep(contender.identity.as_deref()),
            host: keep(contender.host.as_deref()),
            pid: contender.pid.unwrap_or_default(),
            foreign: contender.foreign,
            since: keep(contender.since.as_deref()),
            version: keep(contender.version.as_deref()),
            kind,
            permits,
            limit,
            holds: contender.is_holder,
        })
        .collect();
    let pointers: Vec<_> = items.iter().map(ptr::from_ref).collect();
    let as_c = lh_contenders { count: items.len(), items: pointers.as_ptr() };
    List::new(as_c, (pointers, items, texts))
}

/// For lh_contenders_free.
pub(crate) fn found(outcome: Outcome) -> Result<*mut lh_contenders> {
    brought!(outcome, Contenders).map(|found| list(found).into_c())
}

/// Frees what lh_client_queue brought; NULL is allowed. Only once, and not what a callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_contenders_free(contenders: *mut lh_contenders) {
    // SAFETY: it comes from `found`, as the header asks for.
    unsafe { List::free(contenders) }
}

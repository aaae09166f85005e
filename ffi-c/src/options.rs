//! Options of clients and acquires, as C gives them.

use std::{ffi::c_char, time::Duration};

use leasehold_bridge::{AcquireOptions, Claim, HostOptions, LocalFirst, Result, client::milliseconds};

use crate::{
    entry::{Options, invalid, optional_text},
    handles::lh_cancel,
};

/// Options of a client. 0 and NULL are defaults. Texts are copied, files are read when the client is opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lh_client_opts {
    /// sizeof(lh_client_opts).
    pub size: usize,
    /// How long a lock stays taken after its owner crashed: the TTL of the session's lease. At least 2000 (5000 or more
    /// is recommended), at most 30 days, rounded up to whole seconds; default 15000. etcd may choose a longer one.
    pub ttl_ms: i64,
    /// Put before every name and every key of a guarded write, verbatim; default empty.
    pub namespace_: *const c_char,
    /// Who this client is, shown to whoever looks at the queue; default "<host>:<pid>". At most 256 bytes, no secret.
    pub identity: *const c_char,
    /// User and password, where etcd asks for them.
    pub user: *const c_char,
    /// See `user`.
    pub password: *const c_char,
    /// Not 0: the password may go over plain http:// to other machines, where everybody on the way can read it. To this
    /// machine itself, and over https://, it always may.
    pub plaintext_password: i32,
    /// A file (PEM) with the certificates of the authorities that may have signed etcd's; default: those that this machine
    /// trusts.
    pub ca_file: *const c_char,
    /// A file (PEM) with our own certificate, where etcd asks for one. Needs key_file.
    pub cert_file: *const c_char,
    /// A file (PEM) with the private key of our own certificate.
    pub key_file: *const c_char,
    /// How long opening a connection may take before the next endpoint is tried; 10 to 3600000, default 2000.
    pub connect_timeout_ms: i64,
    /// How long an operation may take that does not wait for a lock, all attempts together; 10 to 3600000, default 5000.
    pub request_timeout_ms: i64,
}

/// Options of an acquire. What is left 0 is the default, and so is all of it with opts of NULL.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct lh_acquire_opts {
    /// sizeof(lh_acquire_opts).
    pub size: usize,
    /// How long to wait for the lock; default (and -1) for ever. Not for a try, which does not wait.
    pub wait_ms: i64,
    /// The TTL of this hold instead of the client's, which is the default; limits as there.
    pub ttl_ms: i64,
    /// Not 0: the hold is not renewed and ends at its TTL. (It is renewed while it waits.)
    pub no_renew: i32,
    /// Not 0: fail with LH_LOST if the session is lost while waiting, instead of queueing again.
    pub no_requeue: i32,
    /// Ends the wait when it is fired; default none.
    pub cancel: lh_cancel,
    /// What kind of lock it is: a number of lh_kind; default LH_MUTEX.
    pub kind: i32,
    /// With LH_PERMITS: how many of them; default 1.
    pub permits: u32,
    /// With LH_PERMITS: how many there are in all. Contenders who disagree about it are told LH_LIMIT_MISMATCH.
    pub limit: u32,
    /// Not 0: acquires of this client share one place in the queue and pass it among them, without asking etcd, while nobody
    /// else waits, or until local_turns or local_ms are used up. Only for a mutex.
    pub local_first: i32,
    /// How many owners in a row that may be while others wait; default 64.
    pub local_turns: u32,
    /// How long that may take while others wait; default 100.
    pub local_ms: i64,
    /// How long the place in the queue stays after a release with nobody waiting, so that the next acquire of this client
    /// needs no request; default 0, not at all. Only for a mutex.
    pub linger_ms: i64,
}

/// A kind of lock.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum lh_kind {
    /// One owner at a time.
    LH_MUTEX = 0,
    /// Many owners at a time, but none beside a mutex of the same name: the read side of a read-write lock.
    LH_SHARED = 1,
    /// As many owners as their permits fit into the limit: a semaphore.
    LH_PERMITS = 2,
}

/// One of several names that are acquired together. This struct will not grow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lh_wanted {
    /// The name of the lock.
    pub name: *const c_char,
    /// A number of lh_kind.
    pub kind: i32,
    /// With LH_PERMITS: how many of them; 0 is 1.
    pub permits: u32,
    /// With LH_PERMITS: how many there are in all.
    pub limit: u32,
}

/// What a kind with its numbers claims.
pub(crate) fn claim(kind: i32, permits: u32, limit: u32) -> Result<Claim> {
    const MUTEX: i32 = lh_kind::LH_MUTEX as i32;
    const SHARED: i32 = lh_kind::LH_SHARED as i32;
    const PERMITS: i32 = lh_kind::LH_PERMITS as i32;
    match (kind, permits, limit) {
        (MUTEX, 0, 0) => Ok(Claim::Exclusive),
        (SHARED, 0, 0) => Ok(Claim::Shared),
        (PERMITS, permits, limit) => Ok(Claim::Permits { permits: permits.max(1), limit }),
        (MUTEX | SHARED, ..) => Err(invalid("permits and limit are for kind = LH_PERMITS")),
        _ => Err(invalid(format!("kind must be a number of lh_kind, not {kind}"))),
    }
}

/// The other way round.
pub(crate) fn numbers(claim: Claim) -> (i32, u32, u32) {
    match claim {
        Claim::Exclusive => (lh_kind::LH_MUTEX as i32, 0, 0),
        Claim::Shared => (lh_kind::LH_SHARED as i32, 0, 0),
        Claim::Permits { permits, limit } => (lh_kind::LH_PERMITS as i32, permits, limit),
    }
}

// SAFETY: repr(C), size first, and made of numbers and pointers.
unsafe impl Options for lh_client_opts {
    const NAME: &'static str = "lh_client_opts";
    const FIRST_SIZE: usize = 96;
}

// SAFETY: as above.
unsafe impl Options for lh_acquire_opts {
    const NAME: &'static str = "lh_acquire_opts";
    const FIRST_SIZE: usize = 80;
}

impl lh_client_opts {
    /// All but the URL.
    ///
    /// # Safety
    /// Every text is NULL, or ends with NUL and stays as it is during the call.
    pub(crate) unsafe fn to_bridge(self) -> Result<HostOptions> {
        // SAFETY: the caller promises it.
        let text = |text, name| unsafe { optional_text(text, name) }.map(|text| text.map(str::to_owned));
        Ok(HostOptions {
            url: String::new(),
            ttl: positive(self.ttl_ms, "the TTL (ttl_ms)")?,
            namespace: text(self.namespace_, "namespace_")?,
            identity: text(self.identity, "identity")?,
            user: text(self.user, "user")?,
            password: text(self.password, "password")?,
            plaintext_password: (self.plaintext_password != 0).then_some(true),
            ca_file: text(self.ca_file, "ca_file")?,
            cert_file: text(self.cert_file, "cert_file")?,
            key_file: text(self.key_file, "key_file")?,
            connect_timeout: positive(self.connect_timeout_ms, "connect_timeout_ms")?,
            request_timeout: positive(self.request_timeout_ms, "request_timeout_ms")?,
        })
    }
}

impl lh_acquire_opts {
    fn local_first(self) -> Result<Option<LocalFirst>> {
        let bounds = LocalFirst::default();
        match (self.local_first, self.local_turns, positive(self.local_ms, "local_ms")?) {
            (0, 0, None) => Ok(None),
            (0, ..) => Err(invalid("local_turns and local_ms are for local_first != 0")),
            (_, turns, time) => {
                let turns = if turns == 0 { bounds.turns } else { turns };
                Ok(Some(LocalFirst { turns, time: time.unwrap_or(bounds.time) }))
            }
        }
    }

    /// With the limit that is given here, or that of a try.
    pub(crate) fn to_bridge(self, is_try: bool) -> Result<AcquireOptions> {
        let wait = match self.wait_ms {
            0 if is_try => Some(Duration::ZERO),
            _ if is_try => return Err(invalid("a try does not wait: leave wait_ms 0, or call lh_acquire")),
            0 | -1 => None,
            millis => Some(span(millis, "wait_ms")?),
        };
        Ok(AcquireOptions {
            wait,
            ttl: positive(self.ttl_ms, "the TTL (ttl_ms)")?,
            renew: self.no_renew == 0,
            requeue: self.no_requeue == 0,
            local_first: self.local_first()?,
            linger: positive(self.linger_ms, "linger_ms")?,
        })
    }
}

/// A span that cannot be endless; 0 is the default.
fn positive(millis: i64, name: &str) -> Result<Option<Duration>> {
    let span = span(millis, name)?;
    Ok(Some(span).filter(|span| !span.is_zero()))
}

/// A span that cannot be endless.
pub(crate) fn span(millis: i64, name: &str) -> Result<Duration> {
    milliseconds(millis).ok_or_else(|| invalid(format!("{name} must be a number of milliseconds, not {millis}")))
}

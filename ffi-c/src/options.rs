//! Options of clients and acquires, as C gives them.

use std::{ffi::c_char, mem::size_of, time::Duration};

use leasehold_bridge::{AcquireOptions, HostOptions, Result, client::milliseconds};

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

/// Options of an acquire. Mind `wait_ms`: left 0 it is a try. Opts of NULL wait for ever.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lh_acquire_opts {
    /// sizeof(lh_acquire_opts).
    pub size: usize,
    /// How long to wait for the lock: less than 0 for ever, 0 for a try.
    pub wait_ms: i64,
    /// The TTL of this hold instead of the client's, which is the default; limits as there.
    pub ttl_ms: i64,
    /// Not 0: the hold is not renewed and ends at its TTL. (It is renewed while it waits.)
    pub no_renew: i32,
    /// Not 0: fail with LH_LOST if the session is lost while waiting, instead of queueing again.
    pub no_requeue: i32,
    /// Ends the wait when it is fired; default none.
    pub cancel: lh_cancel,
}

// SAFETY: repr(C), size first, and made of numbers and pointers.
unsafe impl Options for lh_client_opts {
    const NAME: &'static str = "lh_client_opts";
    const FIRST_SIZE: usize = size_of::<Self>();
}

// SAFETY: as above.
unsafe impl Options for lh_acquire_opts {
    const NAME: &'static str = "lh_acquire_opts";
    const FIRST_SIZE: usize = size_of::<Self>();
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
    pub(crate) fn to_bridge(self) -> Result<AcquireOptions> {
        Ok(AcquireOptions {
            wait: milliseconds(self.wait_ms),
            ttl: positive(self.ttl_ms, "the TTL (ttl_ms)")?,
            renew: self.no_renew == 0,
            requeue: self.no_requeue == 0,
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

//! Options as hosts have them: spans, texts and flags, each given or left to its default.

use std::time::Duration;

use leasehold::{ClientOptions, Code, Error, LocalFirst, Result};

/// The options of a client; see [`ClientOptions`] for what they say, and for their limits.
#[derive(Clone, Default)]
pub struct HostOptions {
    /// One endpoint or several, separated by commas, with options behind them; what is given below counts more.
    pub url: String,
    /// [`ClientOptions::ttl`].
    pub ttl: Option<Duration>,
    /// [`ClientOptions::namespace`].
    pub namespace: Option<String>,
    /// [`ClientOptions::identity`].
    pub identity: Option<String>,
    /// [`ClientOptions::user`].
    pub user: Option<String>,
    /// The user's; empty if a user has none.
    pub password: Option<String>,
    /// [`ClientOptions::plaintext_password`].
    pub plaintext_password: Option<bool>,
    /// [`ClientOptions::ca_file`].
    pub ca_file: Option<String>,
    /// [`ClientOptions::cert_file`].
    pub cert_file: Option<String>,
    /// [`ClientOptions::key_file`].
    pub key_file: Option<String>,
    /// [`ClientOptions::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// [`ClientOptions::request_timeout`].
    pub request_timeout: Option<Duration>,
}

impl TryFrom<HostOptions> for ClientOptions {
    type Error = Error;

    /// # Errors
    /// [`Code::InvalidArgument`] for a password without a user. The rest is checked when the client is opened.
    fn try_from(host: HostOptions) -> Result<Self> {
        let login = match (host.user, host.password) {
            (Some(user), password) => Some((user, password.unwrap_or_default())),
            (None, Some(_)) => return Err(Error::new(Code::InvalidArgument, "a password needs a user")),
            (None, None) => None,
        };
        let mut options = Self::new(host.url);
        options = with(options, host.ttl, Self::ttl);
        options = with(options, host.namespace, Self::namespace);
        options = with(options, host.identity, Self::identity);
        options = with(options, login, |options, (user, password)| options.user(user, password));
        options = with(options, host.plaintext_password, Self::plaintext_password);
        options = with(options, host.ca_file, Self::ca_file);
        options = with(options, host.cert_file, Self::cert_file);
        options = with(options, host.key_file, Self::key_file);
        options = with(options, host.connect_timeout, Self::connect_timeout);
        Ok(with(options, host.request_timeout, Self::request_timeout))
    }
}

/// `options`, and `value` if there is one.
fn with<T>(
    options: ClientOptions,
    value: Option<T>,
    set: impl FnOnce(ClientOptions, T) -> ClientOptions,
) -> ClientOptions {
    match value {
        Some(value) => set(options, value),
        None => options,
    }
}

/// How a lock is acquired.
#[derive(Clone, Debug)]
pub struct AcquireOptions {
    /// How long to wait for it; `None` for as long as it takes, zero for a try.
    pub wait: Option<Duration>,
    /// The TTL of this hold, instead of the client's.
    pub ttl: Option<Duration>,
    /// Whether the hold is renewed until it is released.
    pub renew: bool,
    /// Whether to queue again if the session is lost while waiting.
    pub requeue: bool,
    /// Whether to share a place with others of the client that wait, and within which bound; [`leasehold::Lock::local_first`].
    pub local_first: Option<LocalFirst>,
    /// How long the place stays after the release; [`leasehold::Lock::linger`].
    pub linger: Option<Duration>,
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self { wait: None, ttl: None, renew: true, requeue: true, local_first: None, linger: None }
    }
}

//! What a client can be told: validated at the door, with messages that say what was wrong.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    error::{Code, Error, Result},
    queue::admission::Claim,
    store::{
        Store,
        etcd::{EtcdConfig, TlsConfig},
    },
    terms::{LocalFirst, Sharing},
    text,
};

/// The shortest TTL: below it, etcd itself grants longer ones.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(2);
/// The longest TTL: a lock that stays taken for longer after a crash is a mistake.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest time for which a lock is passed on that others wait for: it is what these wait for each client ahead.
const MAX_LOCAL_TIME: Duration = Duration::from_secs(60);
/// The longest time for which a place stays that nobody holds: each costs a watch, and a read now and then.
const MAX_LINGER: Duration = Duration::from_secs(3600);
/// The longest name, in bytes.
const MAX_NAME: usize = 1024;
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

const DEFAULT_TTL: Duration = Duration::from_secs(15);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a [`Client`](crate::Client), to be set one by one; [`ClientOptions::build`] checks them.
///
/// ```
/// use std::time::Duration;
/// let client = leasehold::ClientOptions::new("http://127.0.0.1:2379,http://127.0.0.1:22379")
///     .ttl(Duration::from_secs(10))
///     .namespace("/shop")
///     .identity("checkout-7")
///     .build()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "options do nothing until `build` is called"]
#[derive(Clone)]
pub struct ClientOptions {
    url: String,
    pub(crate) ttl: Duration,
    pub(crate) namespace: String,
    pub(crate) identity: Option<String>,
    login: Option<(String, String)>,
    plaintext_password: bool,
    pub(crate) in_order: bool,
    /// Whether requests may share a transaction.
    pub(crate) batches: bool,
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    /// The first thing that was wrong while they were set.
    error: Option<Error>,
}

/// Which store a client speaks to.
#[derive(Clone)]
pub(crate) enum Target {
    /// The store of this name inside the process.
    Memory(String),
    /// A cluster.
    Etcd(Box<EtcdConfig>),
    /// This one, made by a test.
    Given(Arc<dyn Store>),
}

impl ClientOptions {
    /// Options with the endpoints of `url` and defaults for the rest.
    ///
    /// `url` is one endpoint or several, separated by commas: `http://host:port`, `https://host:port`, or `host:port`. Each client
    /// begins with one picked at random, stays with it while it is well, and goes on in their order where it is not. The same options as below can follow behind a question mark, durations with their unit:
    /// `https://a:2379,https://b:2379?ttl=10s&namespace=/shop&ca_file=ca.pem` (`ttl`, `namespace`, `identity`,
    /// `plaintext_password`, `ca_file`, `cert_file`, `key_file`, `connect_timeout`, `request_timeout`; user and password are not for URLs).
    ///
    /// `memory://name` is a store inside this process, for the unit tests of programs that lock: shared by all clients of
    /// this process that use the same name. **It locks nothing beyond this process.**
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let (endpoints, query) = url.split_once('?').unwrap_or((&url, ""));
        let mut options = Self {
            url: endpoints.trim().to_owned(),
            ttl: DEFAULT_TTL,
            namespace: String::new(),
            identity: None,
            login: None,
            plaintext_password: false,
            in_order: false,
            batches: true,
            ca_file: None,
            cert_file: None,
            key_file: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            error: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if let Err(error) = options.set(pair) {
                options.error.get_or_insert(error);
            }
        }
        options
    }

    /// Options with a list of endpoints and defaults for the rest; see [`ClientOptions::new`].
    pub fn from_endpoints<E: AsRef<str>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        let endpoints: Vec<String> = endpoints.into_iter().map(|endpoint| endpoint.as_ref().to_owned()).collect();
        Self::new(endpoints.join(","))
    }

    /// How long a lock stays taken after its owner crashed: the TTL of the session's lease. At least 2 s (5 s or more is
    /// recommended), at most 30 days, rounded up to whole seconds; default 15 s. etcd may choose a longer one.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Put before every name and every key of a guarded write, verbatim; default empty.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Who this client is, shown to whoever looks at the queue; default `<host>:<pid>`. At most 256 bytes, no secret.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// User and password, where etcd asks for them. Over plain `http://` to another machine they are refused: see
    /// [`ClientOptions::plaintext_password`].
    pub fn user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((user.into(), password.into()));
        self
    }

    /// Whether the password may travel over plain `http://` to other machines, where everybody on the way can read it; default
    /// `false`. To this machine itself (`localhost`, `127.0.0.0/8`, `::1`) it always may, and over `https://` nobody can.
    pub fn plaintext_password(mut self, allowed: bool) -> Self {
        self.plaintext_password = allowed;
        self
    }

    /// The certificates (PEM) of the authorities that may have signed etcd's certificate. Default: those that this machine
    /// trusts. Read by [`ClientOptions::build`].
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Our own certificate (PEM), where etcd asks for one. Needs [`ClientOptions::key_file`].
    pub fn cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.cert_file = Some(path.into());
        self
    }

    /// The private key (PEM) of our own certificate.
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key_file = Some(path.into());
        self
    }

    /// How long opening a connection may take before the next endpoint is tried; 10 ms to 1 h, default 2 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long an operation may take that does not wait for a lock, all attempts together; 10 ms to 1 h, default 5 s.
    /// A single attempt takes at most a third of it.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Begins with the first endpoint instead of a random one: for tests that must know where a client is.
    #[doc(hidden)]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sends each request in a transaction of its own: for those who measure what sharing one brings.
    #[doc(hidden)]
    pub fn without_batches(mut self) -> Self {
        self.batches = false;
        self
    }

    /// One `name=value` of a URL.
    fn set(&mut self, pair: &str) -> Result<()> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let duration = || {
            humantime::parse_duration(value).map_err(|error| {
                invalid(format!(
                    "the option {name} of the URL must be a duration such as 10s or 500ms, not {}: {error}",
                    text::quoted(value)
                ))
            })
        };
        match name {
            "ttl" => self.ttl = duration()?,
            "connect_timeout" => self.connect_timeout = duration()?,
            "request_timeout" => self.request_timeout = duration()?,
            "namespace" => self.namespace = value.to_owned(),
            "identity" => self.identity = Some(value.to_owned()),
            "plaintext_password" => {
                self.plaintext_password = value.parse().map_err(|_| {
                    invalid(format!("the option {name} of the URL must be true or false, not {}", text::quoted(value)))
                })?;
            }
            "ca_file" => self.ca_file = Some(value.into()),
            "cert_file" => self.cert_file = Some(value.into()),
            "key_file" => self.key_file = Some(value.into()),
            "user" | "password" => {
                return Err(invalid(
                    "user and password do not belong into a URL, where logs show them; set the option instead",
                ));
            }
            _ => {
                return Err(invalid(format!(
                    "the URL has an unknown option {}; known are ttl, namespace, identity, plaintext_password, ca_file, \
                     cert_file, key_file, connect_timeout and request_timeout",
                    text::quoted(name)
                )));
            }
        }
        Ok(())
    }

    /// Checks everything that can be checked without a connection, and makes it canonical.
    pub(crate) fn check(mut self) -> Result<(Self, Target)> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.ttl = whole_seconds(self.ttl)?;
        for (name, timeout) in [("connect", self.connect_timeout), ("request", self.request_timeout)] {
            if !TIMEOUTS.contains(&timeout) {
                return Err(invalid(format!("the {name} timeout must lie between 10 ms and 1 h, not at {timeout:?}")));
            }
        }
        if self.namespace.len() > MAX_NAME || self.namespace.contains('\0') {
            return Err(invalid(format!("the namespace must have at most {MAX_NAME} bytes and no NUL")));
        }
        if self.identity.as_ref().is_some_and(|identity| identity.is_empty() || identity.len() > 256) {
            return Err(invalid("the identity must have 1 to 256 bytes"));
        }
        let target = match self.url.strip_prefix("memory://") {
            Some("") => return Err(invalid("memory:// needs a name, such as memory://tests")),
            Some(name) => Target::Memory(name.to_owned()),
            None => Target::Etcd(Box::new(self.etcd_config()?)),
        };
        Ok((self, target))
    }

    fn etcd_config(&self) -> Result<EtcdConfig> {
        let endpoints: Vec<String> = self
            .url
            .split(',')
            .map(|endpoint| endpoint.trim().to_owned())
            .filter(|endpoint| !endpoint.is_empty())
            .collect();
        if endpoints.is_empty() {
            return Err(invalid("no endpoint given; name at least one, such as http://127.0.0.1:2379"));
        }
        if endpoints.iter().any(|endpoint| endpoint.contains('@')) {
            return Err(invalid(
                "user and password do not belong into a URL, where logs show them; set the option instead",
            ));
        }
        let read = |what: &str, path: &PathBuf| {
            std::fs::read(path)
                .map_err(|error| invalid(format!("could not read the {what} file {}: {error}", path.display())))
        };
        let ca = self.ca_file.as_ref().map(|path| read("CA", path)).transpose()?;
        let identity = match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => Some((read("certificate", cert)?, read("key", key)?)),
            (None, None) => None,
            _ => return Err(invalid("a client certificate needs both its certificate file and its key file")),
        };
        let has_tls = ca.is_some() || identity.is_some();
        Ok(EtcdConfig {
            endpoints,
            tls: has_tls.then_some(TlsConfig { ca, identity, domain_name: None }),
            login: self.login.clone(),
            plaintext_password: self.plaintext_password,
            connect_timeout: self.connect_timeout,
        })
    }
}

impl fmt::Debug for ClientOptions {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("ttl", &self.ttl)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("plaintext_password", &self.plaintext_password)
            .field("ca_file", &self.ca_file)
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// A TTL as etcd takes it: rounded up to whole seconds.
pub(crate) fn whole_seconds(ttl: Duration) -> Result<Duration> {
    if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Err(invalid(format!(
            "the TTL must lie between 2 s and 30 days, not at {ttl:?}; 5 s to 60 s suit most locks"
        )));
    }
    Ok(Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)))
}

/// Whether places can be shared like this, by holds with that claim that are renewed or not.
pub(crate) fn validate_sharing(sharing: Sharing, renew: bool, claim: Claim) -> Result<()> {
    let Sharing { local_first, linger } = sharing;
    if let Some(LocalFirst { turns, time }) = local_first {
        if turns == 0 {
            return Err(invalid("local_first needs at least 1 turn"));
        }
        if time.is_zero() || time > MAX_LOCAL_TIME {
            return Err(invalid(format!(
                "local_first passes a lock on for more than zero and at most {MAX_LOCAL_TIME:?}, not for {time:?}"
            )));
        }
    }
    if linger > MAX_LINGER {
        return Err(invalid(format!("a lock can linger for at most {MAX_LINGER:?}, not for {linger:?}")));
    }
    if sharing.is_some() && claim != Claim::Exclusive {
        return Err(invalid(format!(
            "only an exclusive lock can be local_first or linger, not one that is {claim}: others would wait for what nobody holds"
        )));
    }
    if sharing.is_some() && !renew {
        return Err(invalid(
            "a hold without renewal has a lease of its own, so its lock cannot be local_first or linger; renew it",
        ));
    }
    Ok(())
}

/// Whether `name` can be locked.
pub(crate) fn validate_name(name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > MAX_NAME {
        format!("has {} bytes", name.len())
    } else if name.contains('\0') {
        "contains a NUL byte".to_owned()
    } else {
        return Ok(());
    };
    Err(invalid(format!("the name of the lock {problem}; a name has 1 to {MAX_NAME} bytes of UTF-8 without NUL")))
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: ClientOptions) -> String {
        let error = options.check().err().expect("refused");
        assert_eq!(error.code(), Code::InvalidArgument);
        error.message().to_owned()
    }

    #[test]
    fn a_ttl_is_rounded_up_and_has_limits() {
        assert_eq!(whole_seconds(Duration::from_millis(2001)).unwrap(), Duration::from_secs(3));
        assert_eq!(whole_seconds(Duration::from_secs(5)).unwrap(), Duration::from_secs(5));
        assert!(whole_seconds(Duration::from_millis(1999)).is_err());
        assert!(whole_seconds(Duration::MAX).is_err());
    }

    #[test]
    fn names_have_limits() {
        assert!(validate_name("/lock/ä/").is_ok());
        assert!(validate_name(&"x".repeat(1024)).is_ok());
        for name in ["", "a\0b", &"x".repeat(1025)] {
            assert_eq!(validate_name(name).unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn a_url_carries_options() {
        let (options, target) =
            ClientOptions::new("http://a:1, http://b:2?ttl=2500ms&namespace=/x&request_timeout=7s").check().unwrap();
        assert_eq!((options.ttl, options.namespace.as_str()), (Duration::from_secs(3), "/x"));
        assert_eq!(options.request_timeout, Duration::from_secs(7));
        assert!(!options.plaintext_password);
        let (options, _) = ClientOptions::new("http://a:1?plaintext_password=true").user("u", "p").check().unwrap();
        assert!(options.plaintext_password);
        let Target::Etcd(config) = target else { panic!("an etcd") };
        assert_eq!(config.endpoints, ["http://a:1", "http://b:2"]);
        assert!(
            matches!(ClientOptions::new("memory://tests?ttl=2s").check().unwrap().1, Target::Memory(name) if name == "tests")
        );
    }

    #[test]
    fn what_is_wrong_is_named_and_secrets_are_not() {
        assert!(refused(ClientOptions::new("http://a:1?tll=5s")).contains("tll"));
        assert!(refused(ClientOptions::new("http://a:1?ttl=soon")).contains("duration"));
        assert!(refused(ClientOptions::new("http://a:1?plaintext_password=yes")).contains("true or false"));
        assert!(refused(ClientOptions::new("")).contains("no endpoint"));
        assert!(refused(ClientOptions::new("memory://")).contains("name"));
        assert!(refused(ClientOptions::new("http://a:1").ca_file("/no/such/ca.pem")).contains("/no/such/ca.pem"));
        assert!(refused(ClientOptions::new("http://a:1").cert_file("x")).contains("key file"));
        assert!(!refused(ClientOptions::new("http://root:s3cret@a:1")).contains("s3cret"));
        assert!(!refused(ClientOptions::new("http://a:1?password=s3cret")).contains("s3cret"));
        assert!(!format!("{:?}", ClientOptions::new("http://a:1").user("root", "s3cret")).contains("s3cret"));
    }
}

//! How to reach a cluster: checked at the door, so that what can be known to be wrong is told before the first call.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use http::uri::Scheme;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tonic::transport::{Endpoint, Uri};

use super::{connect::Connector, endpoints::MOST_ENDPOINTS};
use crate::error::{Code, Error, Result};

/// How often an HTTP/2 ping asks whether a connection with open streams still lives. etcd closes connections that are pinged more
/// often than every 5 seconds; without a stream it closes them whatever the interval, so there the kernel's keepalive has to do.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long a ping may stay unanswered before its connection counts as broken.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// How to reach an etcd cluster, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The client URLs of the members, at most 64: `http://host:port`, `https://host:port`, or `host:port`, which means `https` if
    /// [`EtcdConfig::tls`] is given and `http` otherwise. The first one is tried first.
    pub endpoints: Vec<String>,
    /// What TLS needs to know. `https` endpoints work without it if a CA that this machine trusts has signed their certificates.
    pub tls: Option<TlsConfig>,
    /// User and password, where etcd asks for them.
    pub login: Option<(String, String)>,
    /// Whether the password may go over `http` to another machine, where everybody on the way can read it.
    pub plaintext_password: bool,
    /// How long opening a connection may take, TLS included. The time limit of the call counts as well.
    pub connect_timeout: Duration,
}

/// Certificates and keys for TLS, in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificates of the CAs that may have signed the server's certificate; `None` means those that this machine trusts.
    pub ca: Option<Vec<u8>>,
    /// Our certificate, followed by intermediate ones where there are any, and its private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that the server's certificate must bear, where it differs from the host of the endpoint.
    pub domain_name: Option<String>,
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.tls)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .field("domain_name", &self.domain_name)
            .finish()
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// One endpoint, ready to be connected to.
pub(super) struct Route {
    /// Its URL in the one form in which messages name it.
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    pub(super) connector: Connector,
}

impl EtcdConfig {
    /// The endpoints, in their order.
    pub(super) fn build(&self) -> Result<Vec<Route>> {
        if self.connect_timeout.is_zero() {
            return Err(invalid("the connect timeout is zero; give it at least some milliseconds"));
        }
        if self.login.as_ref().is_some_and(|(user, _)| user.is_empty()) {
            return Err(invalid("the user name is empty; leave user and password out where etcd asks for none"));
        }
        let mut urls = Vec::new();
        for endpoint in &self.endpoints {
            let url = self.url(endpoint)?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        if urls.is_empty() {
            return Err(invalid("no endpoint was given; name at least one, such as http://127.0.0.1:2379"));
        }
        if urls.len() > MOST_ENDPOINTS {
            return Err(invalid(format!("{} endpoints were given; the most is {MOST_ENDPOINTS}", urls.len())));
        }
        let secure = urls.iter().filter(|url| url.scheme_str() == Some("https")).count();
        if secure != 0 && secure != urls.len() {
            return Err(invalid("some endpoints are https:// and some http://; make them all alike"));
        }
        if self.tls.is_some() && secure == 0 {
            return Err(invalid("TLS options were given, but the endpoints are http://; write https://"));
        }
        if self.login.is_some()
            && !self.plaintext_password
            && secure == 0
            && let Some(url) = urls.iter().find(|url| !is_this_machine(url))
        {
            return Err(invalid(format!(
                "the password would be readable by everybody on the way to {}; write https://, or set plaintext_password if that \
                 network is yours alone",
                name_of(url)
            )));
        }
        let options = self.tls.clone().unwrap_or_default();
        let tls = if secure == 0 { None } else { Some(Arc::new(options.build()?)) };
        urls.into_iter().map(|url| self.route(url, tls.as_ref(), options.domain_name.as_deref())).collect()
    }

    /// One endpoint as a URL of scheme, host and port.
    fn url(&self, endpoint: &str) -> Result<Uri> {
        let text = endpoint.trim();
        // Whatever stands before an @ may be a password and is not repeated.
        if text.contains('@') {
            return Err(invalid(
                "an endpoint holds user information before an @; give user and password as options of their own",
            ));
        }
        let wrong = |what: &str| {
            invalid(format!("the endpoint {endpoint:?} {what}; write http://host:port or https://host:port"))
        };
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
        let url: Uri = full.parse().map_err(|_| wrong("is not a URL"))?;
        match url.scheme_str() {
            Some("http" | "https") => {}
            _ => return Err(wrong("has a scheme other than http and https")),
        }
        if url.host().is_none_or(str::is_empty) {
            return Err(wrong("names no host"));
        }
        if matches!(url.port_u16(), None | Some(0)) {
            return Err(wrong("names no port (etcd's is 2379)"));
        }
        if url.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(wrong("has a path or a query"));
        }
        Ok(url)
    }

    fn route(&self, url: Uri, tls: Option<&Arc<ClientConfig>>, domain_name: Option<&str>) -> Result<Route> {
        let tls = match tls {
            Some(tls) => {
                let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
                let name = domain_name.unwrap_or(host).to_owned();
                let unusable =
                    |_| invalid(format!("no certificate can bear the name {name:?}; give a host name or an address"));
                Some((Arc::clone(tls), ServerName::try_from(name.clone()).map_err(unusable)?))
            }
            None => None,
        };
        let name = name_of(&url);
        let endpoint = self.endpoint(url)?;
        Ok(Route { name, endpoint, connector: Connector::new(tls, self.connect_timeout) })
    }

    fn endpoint(&self, url: Uri) -> Result<Endpoint> {
        let impossible =
            |error: &dyn fmt::Display| Error::new(Code::Internal, format!("an endpoint was not understood: {error}"));
        // tonic refuses https where TLS is not its own. It sees the scheme only as the one that requests name.
        let mut parts = url.clone().into_parts();
        parts.scheme = Some(Scheme::HTTP);
        let address = Uri::from_parts(parts).map_err(|error| impossible(&error))?;
        Ok(Endpoint::from(address)
            .origin(url)
            .user_agent(concat!("leasehold/", env!("CARGO_PKG_VERSION")))
            .map_err(|error| impossible(&error))?
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false))
    }
}

/// The one form in which messages name an endpoint.
fn name_of(url: &Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

/// Whether what is sent there never leaves this machine.
fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

impl TlsConfig {
    fn build(&self) -> Result<ClientConfig> {
        let roots = match &self.ca {
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(pem, "CA certificate")? {
                    let unusable = |error| invalid(format!("the CA certificate cannot be used: {error}"));
                    roots.add(certificate).map_err(unusable)?;
                }
                roots
            }
            None => trusted_here()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Code::Internal, format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some((certificate, key)) => {
                let chain = certificates(certificate, "client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
                    invalid("the client key holds no private key in PEM (-----BEGIN … PRIVATE KEY-----)")
                })?;
                let unusable = |error| invalid(format!("the client certificate cannot be used with its key: {error}"));
                config.with_client_auth_cert(chain, key).map_err(unusable)?
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// The CA certificates that this machine trusts.
fn trusted_here() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    if roots.add_parsable_certificates(found.certs).0 == 0 {
        return Err(invalid("this machine trusts no CA; give the certificate of the CA that signed the server's"));
    }
    Ok(roots)
}

/// The certificates in `pem`, of which there must be one.
fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(invalid(format!("the {what} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"))),
        Err(error) => Err(invalid(format!("the {what} is not valid PEM: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoints: &[&str]) -> EtcdConfig {
        EtcdConfig {
            endpoints: endpoints.iter().map(ToString::to_string).collect(),
            tls: None,
            login: None,
            plaintext_password: false,
            connect_timeout: Duration::from_secs(2),
        }
    }

    fn names(config: &EtcdConfig) -> Vec<String> {
        config.build().unwrap().into_iter().map(|route| route.name).collect()
    }

    fn refusal(config: &EtcdConfig) -> String {
        let error = config.build().err().expect("it cannot work");
        assert_eq!(error.code(), Code::InvalidArgument);
        error.message().to_owned()
    }

    #[test]
    fn urls_and_host_port_are_accepted_and_named_alike() {
        assert_eq!(
            names(&config(&[" http://127.0.0.1:2379/ ", "localhost:1", "[::1]:2"])),
            ["http://127.0.0.1:2379", "http://localhost:1", "http://[::1]:2",]
        );
        assert_eq!(names(&config(&["a:1", "http://a:1/", "b:1"])), ["http://a:1", "http://b:1"], "once each");
        let secure = EtcdConfig { tls: Some(TlsConfig::default()), ..config(&["a:1", "https://b:1"]) };
        assert_eq!(names(&secure), ["https://a:1", "https://b:1"]);
    }

    #[test]
    fn what_is_wrong_with_an_endpoint_is_said() {
        for (endpoint, words) in [
            ("", "is empty"),
            ("http://", "not a URL"),
            ("http://a b:1", "not a URL"),
            ("localhost", "names no port"),
            ("http://localhost", "names no port"),
            ("a:99999", "names no port"),
            ("a:0", "names no port"),
            ("ftp://a:1", "scheme"),
            ("unix:///tmp/etcd.sock", "not a URL"),
            ("http://a:1/v3", "path"),
            ("http://a:1?x=y", "path or a query"),
        ] {
            let message = refusal(&config(&[endpoint]));
            assert!(message.contains(words), "{endpoint}: {message}");
        }
        assert!(refusal(&config(&[])).contains("no endpoint"));
        assert!(refusal(&config(&["http://a:1", "https://b:1"])).contains("alike"));
        let many: Vec<String> = (1..=65).map(|port| format!("a:{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refusal(&config(&many)).contains("the most is 64"));
    }

    #[test]
    fn a_password_is_never_repeated() {
        let message = refusal(&config(&["http://root:hunter2@a:1"]));
        assert!(message.contains("user and password") && !message.contains("hunter2"), "{message}");
        let login = EtcdConfig { login: Some(("root".into(), "hunter2".into())), ..config(&["a:1"]) };
        let debug = format!("{login:?}");
        assert!(debug.contains("root") && !debug.contains("hunter2"), "{debug}");
        let tls = TlsConfig { identity: Some((b"c".to_vec(), b"hunter2".to_vec())), ..TlsConfig::default() };
        assert!(!format!("{tls:?}").contains("hunter2"));
    }

    #[test]
    fn a_password_goes_in_the_clear_to_this_machine_only_unless_asked_for_by_name() {
        let with =
            |endpoints: &[&str]| EtcdConfig { login: Some(("root".into(), "hunter2".into())), ..config(endpoints) };
        let here =
            ["http://127.0.0.1:1", "127.8.9.10:1", "http://[::1]:1", "http://[::ffff:127.0.0.1]:1", "LocalHost:1"];
        assert!(with(&here).build().is_ok());
        for away in [
            "http://10.0.0.1:1",
            "etcd:1",
            "http://0.0.0.0:1",
            "http://localhost.example:1",
            "http://127.0.0.1.example:1",
            "http://[::]:1",
            "http://[fe80::1]:1",
        ] {
            let message = refusal(&with(&[here[0], away]));
            assert!(message.contains("plaintext_password") && message.contains("https://"), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
            assert!(EtcdConfig { plaintext_password: true, ..with(&[away]) }.build().is_ok());
            assert!(config(&[away]).build().is_ok(), "without a password there is nothing to read");
        }
        assert!(with(&["https://10.0.0.1:1"]).build().is_ok());
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        assert!(
            refusal(&EtcdConfig { connect_timeout: Duration::ZERO, ..config(&["a:1"]) }).contains("connect timeout")
        );
        assert!(
            refusal(&EtcdConfig { login: Some(("".into(), "x".into())), ..config(&["a:1"]) }).contains("user name")
        );
        let with = |tls| EtcdConfig { tls: Some(tls), ..config(&["https://a:1"]) };
        let plain = EtcdConfig { tls: Some(TlsConfig::default()), ..config(&["http://a:1"]) };
        assert!(refusal(&plain).contains("write https://"));
        let no_ca = with(TlsConfig { ca: Some(b"hello".to_vec()), ..TlsConfig::default() });
        assert!(refusal(&no_ca).contains("CA certificate holds no certificate"));
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n".to_vec();
        assert!(refusal(&with(TlsConfig { ca: Some(cut), ..TlsConfig::default() })).contains("CA certificate"));
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
        let unusable = refusal(&with(TlsConfig { ca: Some(empty), ..TlsConfig::default() }));
        assert!(unusable.contains("cannot be used"), "{unusable}");
        let no_key = TlsConfig { identity: Some((b"x".to_vec(), b"y".to_vec())), ..TlsConfig::default() };
        assert!(refusal(&with(no_key)).contains("client certificate"));
    }
}

//! How a connection is made: TCP, then TLS where the endpoint asks for it.
//!
//! TLS is not left to tonic because of one common mistake: a server that refuses our certificate, or misses one, says so after
//! our side of the handshake is done. tonic then knows only that the connection closed; here the server's last words are kept.

use std::{
    error::Error as StdError,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, Error as TlsError, pki_types::ServerName},
};
use tonic::transport::Uri;
use tower_service::Service;

use super::lock;

/// How long a TCP connection may be silent before the kernel asks whether the other side still lives, which also keeps the
/// connection alive in firewalls and address translators.
const TCP_IDLE: Duration = Duration::from_secs(10);

/// How long the kernel waits for each answer, and how often it asks.
const TCP_PROBE: (Duration, u32) = (Duration::from_secs(1), 3);

/// Something to read from and write to.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The last error of TLS on the connections of one endpoint.
#[derive(Clone, Default)]
struct LastWords(Arc<Mutex<Option<TlsError>>>);

impl LastWords {
    fn notice(&self, error: &io::Error) {
        if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>()) {
            *lock(&self.0) = Some(error.clone());
        }
    }
}

/// What TLS needs for one endpoint: the options, and the name that the server has to prove.
pub(super) type Tls = (Arc<ClientConfig>, ServerName<'static>);

/// Makes the connections of one endpoint.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Option<Tls>,
    limit: Duration,
    last_words: LastWords,
}

impl Connector {
    /// Connections that have to stand, with TLS, within `limit`.
    pub(super) fn new(tls: Option<Tls>, limit: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Otherwise small messages wait for the acknowledgement of the one before: 44 ms a call.
        tcp.set_nodelay(true);
        // HTTP/2 pings are for connections with a stream open (see config.rs); this is for the others.
        tcp.set_keepalive(Some(TCP_IDLE));
        tcp.set_keepalive_interval(Some(TCP_PROBE.0));
        tcp.set_keepalive_retries(Some(TCP_PROBE.1));
        Self { tcp, tls, limit, last_words: LastWords::default() }
    }

    /// What TLS ended the last connection with that this or a clone of it made, if it did.
    pub(super) fn last_words(&self) -> Option<TlsError> {
        lock(&self.last_words.0).clone()
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tcp = self.tcp.call(uri);
        let (tls, limit, last_words) = (self.tls.clone(), self.limit, self.last_words.clone());
        Box::pin(async move {
            *lock(&last_words.0) = None;
            let connecting = async {
                let tcp = tcp.await?.into_inner();
                let io: Box<dyn Io> = match tls {
                    Some((config, name)) => Box::new(TlsConnector::from(config).connect(name, tcp).await?),
                    None => Box::new(tcp),
                };
                Ok::<_, BoxError>(io)
            };
            match timeout(limit, connecting).await {
                Ok(io) => Ok(TokioIo::new(Connection { io: io?, last_words, broken: None })),
                Err(_) => Err(format!("no connection within {limit:?}").into()),
            }
        })
    }
}

/// A connection that remembers what TLS ended it with.
pub(super) struct Connection {
    io: Box<dyn Io>,
    last_words: LastWords,
    /// Why nothing can be written any more, while what the other side said before it hung up is still on its way.
    broken: Option<io::Error>,
}

impl Connection {
    /// Writes with `write`. If that fails the connection is dead, but its last words may be waiting to be read: the failure is told
    /// when everything is read, which the end of the connection bounds.
    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut dyn Io>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.broken.is_none() {
            match ready!(write(Pin::new(&mut *self.io), context)) {
                Ok(done) => return Poll::Ready(Ok(done)),
                Err(error) => self.broken = Some(error),
            }
        }
        let mut bytes = [0; 256];
        loop {
            let mut rest = ReadBuf::new(&mut bytes);
            if ready!(Pin::new(&mut *self).poll_read(context, &mut rest)).is_err() || rest.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Err(self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.io).poll_read(context, buffer));
        Poll::Ready(result.inspect_err(|error| self.last_words.notice(error)))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |io, context| io.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

//! The channels to the members of a cluster, and unary exchanges over them.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use etcd_client::proto::{PbAuthenticateRequest, PbAuthenticateResponse, PbStatusRequest, PbStatusResponse};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::Stream;
use tonic::{
    IntoStreamingRequest, Request, Response, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    auth::{Auth, Pass},
    config::{EtcdConfig, Route},
    connect::Connector,
    endpoints::{Endpoints, Set},
    errors::{Failure, Next, Phase},
    lock, version,
};
use crate::{
    clock,
    error::Result,
    store::{ErrorKind, StoreError},
};

/// How long fetching a token from one endpoint may take: hashing the password alone costs the server a tenth of a second.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the question for a server's version, which nobody waits for, may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest reply taken, as in etcd's own client. tonic's limit of 4 MiB would cut off the queue of a very popular lock.
const LARGEST_REPLY: usize = i32::MAX as usize;

/// One endpoint.
struct Member {
    /// Its URL, for messages.
    name: String,
    endpoint: Endpoint,
    connector: Connector,
    /// Made at the first call, because it needs a runtime.
    channel: OnceLock<Channel>,
    /// Whether its version was asked for.
    greeted: AtomicBool,
}

/// One kind of unary call, and until when an answer is wanted.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// gRPC path.
    pub(super) path: &'static str,
    /// [`Phase::Write`] or [`Phase::Read`]: what it has come to when it was sent.
    pub(super) effect: Phase,
    pub(super) deadline: Instant,
}

/// The members of a cluster.
pub(super) struct Cluster {
    members: Vec<Member>,
    endpoints: Mutex<Endpoints>,
    auth: Auth,
    warned_of_version: AtomicBool,
    warned_of_login: AtomicBool,
}

impl Cluster {
    pub(super) fn new(config: EtcdConfig) -> Result<Self> {
        let members: Vec<_> = config
            .build()?
            .into_iter()
            .map(|Route { name, endpoint, connector }| Member {
                name,
                endpoint,
                connector,
                channel: OnceLock::new(),
                greeted: AtomicBool::new(false),
            })
            .collect();
        Ok(Self {
            endpoints: Mutex::new(Endpoints::new(members.len())),
            members,
            auth: Auth::new(config.login),
            warned_of_version: AtomicBool::new(false),
            warned_of_login: AtomicBool::new(false),
        })
    }

    /// The URLs of the endpoints.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// The URL of one endpoint.
    pub(super) fn name(&self, index: usize) -> &str {
        &self.members[index].name
    }

    /// What is known about the endpoints; hold it for a moment only.
    pub(super) fn endpoints(&self) -> std::sync::MutexGuard<'_, Endpoints> {
        lock(&self.endpoints)
    }

    /// The endpoint that is thought best now.
    pub(super) fn best(&self) -> usize {
        self.endpoints().best(clock::now(), Set::default()).unwrap_or_default()
    }

    /// What it means that an exchange with an endpoint ended with `status`.
    pub(super) fn classify(&self, index: usize, status: &Status, phase: Phase) -> Failure {
        let last_words = self.members[index].connector.last_words();
        Failure::classify(self.name(index), status, phase, last_words.as_ref())
    }

    /// The endpoint failed: others first, for a while.
    pub(super) fn failed(&self, index: usize) {
        self.endpoints().failed(index, clock::now());
    }

    /// The endpoint answered.
    pub(super) fn answered(self: &Arc<Self>, index: usize) {
        self.endpoints().answered(index);
        if !self.members[index].greeted.swap(true, Ordering::Relaxed) {
            let cluster = Arc::clone(self);
            tokio::spawn(async move { cluster.ask_for_version(index).await });
        }
    }

    /// Warns, once per store, of servers that are known to be unsafe. Nobody waits for this, and its failure means nothing.
    async fn ask_for_version(self: Arc<Self>, index: usize) {
        let token = self.auth.pass().and_then(|pass| pass.token);
        let request = unary_request(PbStatusRequest::default(), Flight::default().into(), token.as_ref());
        let asked = self.send(index, "/etcdserverpb.Maintenance/Status", request);
        let answer: PbStatusResponse = match timeout(STATUS_TIMEOUT, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => {
                return tracing::debug!(endpoint = self.name(index), %status, "could not ask for the version");
            }
            Err(_) => return tracing::debug!(endpoint = self.name(index), "no answer to the question for the version"),
        };
        if version::may_renew_a_revoked_lease(&answer.version) && !self.warned_of_version.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                endpoint = self.name(index),
                version = answer.version,
                "this etcd may acknowledge the renewal of a revoked lease: a lock may be taken for held when it is lost; \
                 run at least 3.5.23 or 3.6.5, better 3.5.28 or 3.6.9"
            );
        }
    }

    fn client(&self, index: usize) -> Grpc<Channel> {
        let member = &self.members[index];
        let connect = || member.endpoint.connect_with_connector_lazy(member.connector.clone());
        let channel = member.channel.get_or_init(connect).clone();
        Grpc::new(channel).max_decoding_message_size(LARGEST_REPLY)
    }

    async fn send<Q, R>(
        &self,
        index: usize,
        path: &'static str,
        request: Request<Once<Q>>,
    ) -> std::result::Result<R, Status>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let mut client = self.client(index);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let codec = ProstCodec::<Q, R>::default();
        client.client_streaming(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
    }

    /// Opens a stream in both directions to one endpoint. Resolves when the first reply is on its way.
    pub(super) async fn open<Q, R>(
        &self,
        index: usize,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
        pass: &Pass,
    ) -> std::result::Result<Streaming<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut client = self.client(index);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let mut request = requests.into_streaming_request();
        introduce(&mut request, pass.token.as_ref());
        let codec = ProstCodec::<Q, R>::default();
        client.streaming(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
    }

    /// One exchange with one endpoint, which must have taken the request within `share` and answered before the call's
    /// deadline.
    async fn attempt<Q, R>(
        &self,
        index: usize,
        call: Call,
        message: Q,
        token: Option<&MetadataValue<Ascii>>,
        share: Duration,
    ) -> std::result::Result<R, Failure>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let flight = Arc::new(Flight::default());
        let request = unary_request(message, Arc::clone(&flight), token);
        let mut exchange = std::pin::pin!(self.send(index, call.path, request));
        let name = self.name(index);
        let taken_by = call.deadline.min(Instant::now() + share);
        let mut outcome = timeout_at(taken_by, &mut exchange).await;
        if outcome.is_err() {
            if flight.abandon() {
                return Err(Failure::timeout(name, Phase::Unsent));
            }
            outcome = timeout_at(call.deadline, &mut exchange).await;
        }
        match outcome {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(status)) => {
                let phase = if flight.abandon() { Phase::Unsent } else { call.effect };
                Err(self.classify(index, &status, phase))
            }
            Err(_) => Err(Failure::timeout(name, call.effect)),
        }
    }

    /// Goes through the endpoints, the best first, as long as the request surely had no effect.
    async fn round<Q, R>(
        self: &Arc<Self>,
        call: Call,
        message: impl Fn() -> Q,
        token: Option<&MetadataValue<Ascii>>,
    ) -> std::result::Result<R, Failure>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let mut tried = Set::default();
        let mut failures: Vec<Failure> = Vec::new();
        loop {
            let next = self.endpoints().best(clock::now(), tried);
            let remaining = call.deadline.saturating_duration_since(Instant::now());
            let index = match next {
                Some(index) if !remaining.is_zero() => index,
                _ => return Err(combine(failures)),
            };
            tried.insert(index);
            let share = remaining / (self.members.len() + 1 - tried.len()) as u32;
            match self.attempt(index, call, message(), token, share).await {
                Ok(reply) => {
                    self.answered(index);
                    return Ok(reply);
                }
                Err(failure) => {
                    if failure.avoid {
                        self.failed(index);
                    }
                    if failure.next != Next::OtherEndpoint {
                        return Err(failure);
                    }
                    failures.push(failure);
                }
            }
        }
    }

    /// A unary call: sent once, unless it surely had no effect where it was sent. `message` makes the request, anew for every
    /// endpoint that is asked.
    ///
    /// # Errors
    /// The failure of the endpoint that may have applied it, or the failures of all.
    pub(super) async fn call<Q, R>(
        self: &Arc<Self>,
        call: Call,
        message: impl Fn() -> Q,
    ) -> std::result::Result<R, StoreError>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let mut renewed = false;
        loop {
            let pass = self.pass(call.deadline).await?;
            match self.round(call, &message, pass.token.as_ref()).await {
                Ok(reply) => return Ok(reply),
                Err(failure) if failure.next == Next::NewToken && !renewed && self.auth.refuse(&pass) => renewed = true,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    /// What to show to etcd now, fetched first if need be.
    ///
    /// # Errors
    /// The login was refused, or no endpoint answered before `deadline`. Nothing was sent but the login.
    pub(super) async fn pass(self: &Arc<Self>, deadline: Instant) -> std::result::Result<Pass, StoreError> {
        if let Some(pass) = self.auth.pass() {
            return Ok(pass);
        }
        let seen = self.auth.exchanges();
        let cluster = Arc::clone(self);
        // On a task of its own: a caller that runs out of time must not waste the work that the others wait for.
        let exchange = tokio::spawn(async move { cluster.auth.renew(seen, cluster.log_in()).await });
        match timeout_at(deadline, exchange).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(StoreError::refused(ErrorKind::Internal, format!("the login ended early: {error}"))),
            Err(_) => Err(StoreError::refused(ErrorKind::Timeout, "the login at etcd took too long")),
        }
    }

    /// Etcd did not accept `pass`. Tells whether another can be had.
    pub(super) fn refuse(&self, pass: &Pass) -> bool {
        self.auth.refuse(pass)
    }

    /// Exchanges user and password for a token; for none where etcd does not ask who we are.
    async fn log_in(self: &Arc<Self>) -> std::result::Result<Option<MetadataValue<Ascii>>, StoreError> {
        const PATH: &str = "/etcdserverpb.Auth/Authenticate";
        let Some((user, password)) = self.auth.login() else { return Ok(None) };
        let message = || PbAuthenticateRequest { name: user.clone(), password: password.clone() };
        let mut untried = self.members.len();
        loop {
            untried = untried.saturating_sub(1);
            let call = Call { path: PATH, effect: Phase::Read, deadline: Instant::now() + LOGIN_TIMEOUT };
            let failure = match self.round(call, message, None).await {
                Ok(PbAuthenticateResponse { token, .. }) => {
                    let unusable =
                        |_| StoreError::refused(ErrorKind::Internal, "etcd's token cannot be sent in a header");
                    return MetadataValue::try_from(token).map(Some).map_err(unusable);
                }
                Err(failure) => failure.error,
            };
            if failure.message.ends_with("authentication is not enabled") {
                if !self.warned_of_login.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "a user was given, but this etcd has authentication disabled: anybody may do anything there"
                    );
                }
                return Ok(None);
            }
            // A login may be repeated; the endpoint that kept silent is the last choice now.
            if failure.kind != ErrorKind::Timeout || untried == 0 {
                return Err(failure);
            }
        }
    }
}

/// The failures of all endpoints as one: the first that says more than "not reachable" gives the kind.
fn combine(failures: Vec<Failure>) -> Failure {
    let message = failures.iter().map(|failure| failure.error.message.as_str()).collect::<Vec<_>>().join("; ");
    let telling = |failure: &&Failure| !matches!(failure.error.kind, ErrorKind::Unavailable | ErrorKind::Timeout);
    let chosen = failures.iter().find(telling).or(failures.first());
    let kind = chosen.map_or(ErrorKind::Timeout, |failure| failure.error.kind);
    let message =
        if failures.len() > 1 { format!("no endpoint of etcd could serve the request: {message}") } else { message };
    Failure { error: StoreError::refused(kind, message), avoid: false, next: Next::Stop }
}

/// Adds what etcd wants to know besides the request: who we are, and that a member without a leader shall say so at once.
///
/// A deadline is not sent along: dropping the call resets its stream, which cancels it on the server, and a server that is frozen
/// would count the time from when it wakes up. The outcome of a write is unknown in either case.
fn introduce<T>(request: &mut Request<T>, token: Option<&MetadataValue<Ascii>>) {
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token.clone());
    }
}

fn unary_request<Q>(message: Q, flight: Arc<Flight>, token: Option<&MetadataValue<Ascii>>) -> Request<Once<Q>> {
    let mut request = Request::new(Once { message: Some(message), flight });
    introduce(&mut request, token);
    request
}

/// Whether a request has left for the network: the one fact that tells a failure without effect from an ambiguous one.
///
/// The transport takes the message out of [`Once`] when a connection stands and a stream on it is open. As long as that has not
/// happened we can take it back, and then it surely never happens.
#[derive(Debug, Default)]
struct Flight(AtomicU8);

impl Flight {
    const WAITING: u8 = 0;
    const SENT: u8 = 1;
    const ABANDONED: u8 = 2;

    /// Whether the request may go now.
    fn depart(&self) -> bool {
        self.0.compare_exchange(Self::WAITING, Self::SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes the request back; tells whether that was still possible.
    fn abandon(&self) -> bool {
        self.0.compare_exchange(Self::WAITING, Self::ABANDONED, Ordering::AcqRel, Ordering::Acquire) != Err(Self::SENT)
    }
}

/// A stream of one message that knows whether it was taken.
struct Once<Q> {
    message: Option<Q>,
    flight: Arc<Flight>,
}

impl<Q: Unpin> Stream for Once<Q> {
    type Item = Q;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Q>> {
        if self.message.is_some() && !self.flight.depart() {
            self.message = None;
        }
        Poll::Ready(self.message.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.message.is_some());
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_message_that_was_taken_back_never_leaves() {
        let flight = Arc::new(Flight::default());
        let mut stream = Once { message: Some(1), flight: Arc::clone(&flight) };
        assert!(flight.abandon());
        assert!(flight.abandon(), "it stays taken back");
        assert_eq!(stream.next().await, None);
        assert_eq!(stream.next().await, None);
    }

    #[tokio::test]
    async fn a_message_that_left_cannot_be_taken_back() {
        let flight = Arc::new(Flight::default());
        let mut stream = Once { message: Some(1), flight: Arc::clone(&flight) };
        assert_eq!(stream.next().await, Some(1));
        assert!(!flight.abandon());
        assert_eq!(stream.next().await, None);
    }

    fn failure(kind: ErrorKind, message: &str) -> Failure {
        Failure { error: StoreError::refused(kind, message), avoid: true, next: Next::OtherEndpoint }
    }

    #[test]
    fn failures_of_several_endpoints_are_all_named_and_the_telling_one_gives_the_kind() {
        let both = combine(vec![
            failure(ErrorKind::Unavailable, "http://a:1: connection refused"),
            failure(ErrorKind::Unauthenticated, "http://b:1: bad certificate"),
        ]);
        assert_eq!((both.error.kind, both.error.ambiguous), (ErrorKind::Unauthenticated, false));
        assert!(both.error.message.contains("http://a:1: connection refused; http://b:1: bad certificate"));
        let one = combine(vec![failure(ErrorKind::Unavailable, "http://a:1: connection refused")]);
        assert_eq!(one.error.message, "http://a:1: connection refused");
    }
}

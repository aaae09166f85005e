//! One endpoint: its channel, and single exchanges over it.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tokio_stream::Stream;
use tonic::{
    IntoStreamingRequest, Request, Response, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    config::Route,
    connect::Connector,
    convert::Nonsense,
    errors::{Failure, Phase},
    lock,
    unary::Unary,
};

/// The largest message taken. tonic's limit of 4 MiB would cut off the queue of a very popular lock; none at all would let a server
/// fill our memory. The queue of 100,000 contenders of ours has about 30 MiB.
const LARGEST_REPLY: usize = 64 << 20;

/// What etcd knows a user by.
pub(super) type Token = MetadataValue<Ascii>;

/// One kind of unary call, and until when an answer is wanted.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// gRPC path.
    pub(super) path: &'static str,
    /// [`Phase::Write`] or [`Phase::Read`]: what it has come to when it was sent.
    pub(super) effect: Phase,
    pub(super) deadline: Instant,
}

/// One endpoint.
pub(super) struct Member {
    /// Its URL, for messages.
    pub(super) name: String,
    endpoint: Endpoint,
    connector: Connector,
    link: Mutex<Link>,
    greeted: AtomicBool,
}

/// The present channel of an endpoint.
#[derive(Default)]
struct Link {
    /// Made when it is needed, because it needs a runtime.
    channel: Option<Channel>,
    /// Counts the channels that were given up.
    generation: u64,
}

impl Link {
    fn give_up(&mut self) {
        self.channel = None;
        self.generation += 1;
    }
}

impl Member {
    pub(super) fn new(Route { name, endpoint, connector }: Route) -> Self {
        Self { name, endpoint, connector, link: Mutex::default(), greeted: AtomicBool::new(false) }
    }

    /// Whether this is the first time that somebody asks.
    pub(super) fn greet(&self) -> bool {
        // Read first: this is asked after every answer.
        !self.greeted.load(Ordering::Relaxed) && !self.greeted.swap(true, Ordering::Relaxed)
    }

    /// A client on the present channel, and which one that is.
    fn client<T>(&self, on: impl FnOnce(Channel) -> T) -> (Grpc<T>, u64) {
        let mut link = lock(&self.link);
        let connect = || self.endpoint.connect_with_connector_lazy(self.connector.clone());
        let channel = link.channel.get_or_insert_with(connect).clone();
        (Grpc::new(on(channel)).max_decoding_message_size(LARGEST_REPLY), link.generation)
    }

    /// Makes the next exchange open a connection of its own. What is under way on the present one goes on.
    ///
    /// A connection that swallows everything is found out by its ping after 13 seconds only, and a name or an address may stand for
    /// several servers of which another one is well.
    pub(super) fn reconnect(&self) {
        lock(&self.link).give_up();
    }

    /// What it means that an exchange ended with `status`.
    pub(super) fn classify(&self, status: &Status, phase: Phase) -> Failure {
        Failure::classify(&self.name, status, phase, self.connector.last_words().as_ref())
    }

    /// An answer that no etcd gives: nobody knows what became of the request.
    pub(super) fn nonsense(&self, what: Nonsense, phase: Phase) -> Failure {
        Failure::nonsense(&self.name, what, phase)
    }

    /// One unary exchange: the request must have left within `share`, and been answered before the call's deadline.
    pub(super) async fn exchange<Q, R>(
        &self,
        call: Call,
        message: Q,
        token: Option<&Token>,
        share: Duration,
    ) -> Result<R, Failure>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let flight = Arc::new(Flight::default());
        let mut request = Request::new(Once { message: Some(message), flight: Arc::clone(&flight) });
        introduce(&mut request, token);
        let (client, generation) = self.client(Unary);
        let mut exchange = std::pin::pin!(send(client, call.path, request));
        let left_by = call.deadline.min(Instant::now() + share);
        let mut outcome = timeout_at(left_by, &mut exchange).await;
        if outcome.is_err() {
            if flight.abandon() {
                return Err(Failure::timeout(&self.name, Phase::Unsent));
            }
            outcome = timeout_at(call.deadline, &mut exchange).await;
        }
        match outcome {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(status)) => {
                let phase = if flight.abandon() { Phase::Unsent } else { call.effect };
                Err(self.classify(&status, phase))
            }
            Err(_) => {
                let mut link = lock(&self.link);
                // Of many that run into the same silence only the first gives up the connection.
                if link.generation == generation {
                    link.give_up();
                }
                Err(Failure::timeout(&self.name, call.effect))
            }
        }
    }

    /// Opens a stream in both directions. Resolves when the first reply is on its way.
    pub(super) async fn open<Q, R>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
        token: Option<&Token>,
    ) -> Result<Streaming<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let (mut client, _) = self.client(|channel| channel);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let mut request = requests.into_streaming_request();
        introduce(&mut request, token);
        let codec = ProstCodec::<Q, R>::default();
        client.streaming(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
    }
}

async fn send<Q, R>(mut client: Grpc<Unary>, path: &'static str, request: Request<Once<Q>>) -> Result<R, Status>
where
    Q: Message + Unpin + 'static,
    R: Message + Default + 'static,
{
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = ProstCodec::<Q, R>::default();
    client.client_streaming(request, PathAndQuery::from_static(path), codec).await.map(Response::into_inner)
}

/// Adds what etcd wants to know besides the request: who we are, and that a member without a leader shall say so at once.
///
/// A deadline is not sent along: dropping the call resets its stream, which cancels it on the server, and a server that is frozen
/// would count the time from when it wakes up. The outcome of a write is unknown in either case.
fn introduce<T>(request: &mut Request<T>, token: Option<&Token>) {
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token.clone());
    }
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
}

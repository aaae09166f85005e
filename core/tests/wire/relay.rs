//! A relay between clients and one member of etcd that writes down every gRPC message that passes.
//!
//! It speaks HTTP/2 on both sides and reads frames of gRPC, not the client's code: what it counts is what was on the wire.

use std::{
    collections::{BTreeMap, HashSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Buf, Bytes, BytesMut};
use etcd_client::proto::{PbWatchRequest, PbWatchRequestUnion, PbWatchResponse};
use h2::{RecvStream, SendStream, client::SendRequest, server::SendResponse};
use http::Request;
use leasehold_etcd::{
    Cluster,
    Direction::{self, ToClient, ToServer},
};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

/// The calls that are streams in both directions.
const STREAMS: [&str; 2] = ["LeaseKeepAlive", "Watch"];

/// A flag and a length stand before every message of gRPC.
const HEAD: usize = 5;

/// Forwards connections to one member as long as the test's runtime lives.
pub struct Relay {
    address: SocketAddr,
    log: Arc<Mutex<Vec<Said>>>,
}

/// One message.
#[derive(Clone)]
struct Said {
    /// Tells the exchanges apart: a unary call or a stream is one.
    exchange: u64,
    method: String,
    direction: Direction,
    message: Bytes,
}

/// A place in the log.
#[derive(Clone, Copy, Default)]
pub struct Mark(usize);

/// What was said from a mark on.
pub struct Record(Vec<Said>);

impl Relay {
    /// A relay before the first member of `cluster`.
    pub async fn start(cluster: &Cluster) -> Self {
        let target = cluster.address(0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let log = Arc::new(Mutex::default());
        let shared = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A connection that breaks is the business of those at its ends.
                drop(tokio::spawn(carry(client, target, Arc::clone(&shared))));
            }
        });
        Self { address, log }
    }

    /// The URL to use instead of the member's.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The end of the log.
    pub fn mark(&self) -> Mark {
        Mark(self.log.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// What was said since `mark`.
    pub fn since(&self, mark: Mark) -> Record {
        Record(self.log.lock().unwrap_or_else(PoisonError::into_inner)[mark.0..].to_vec())
    }

    /// Everything.
    pub fn all(&self) -> Record {
        self.since(Mark::default())
    }
}

impl Record {
    /// The unary requests of each method.
    pub fn unary(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for said in self.0.iter().filter(|said| said.direction == ToServer && !STREAMS.contains(&said.method.as_str()))
        {
            *counts.entry(said.method.as_str()).or_default() += 1;
        }
        counts
    }

    /// The messages of one method in one direction.
    pub fn count(&self, method: &str, direction: Direction) -> usize {
        self.0.iter().filter(|said| said.method == method && said.direction == direction).count()
    }

    /// The changes that etcd told in watches.
    pub fn events(&self) -> usize {
        self.of("Watch", ToClient).map(|said| PbWatchResponse::decode(said.message.clone()).unwrap().events.len()).sum()
    }

    /// How many watches on more than a key were ever opened, and how many of them stand. Whoever has one hears of every change
    /// in the queue.
    pub fn queue_watches(&self) -> (usize, usize) {
        let (mut opened, mut standing) = (0, HashSet::new());
        for said in self.of("Watch", ToServer) {
            match PbWatchRequest::decode(said.message.clone()).unwrap().request_union {
                Some(PbWatchRequestUnion::CreateRequest(create)) if !create.range_end.is_empty() => {
                    opened += 1;
                    standing.insert((said.exchange, create.watch_id));
                }
                Some(PbWatchRequestUnion::CancelRequest(cancel)) => {
                    standing.remove(&(said.exchange, cancel.watch_id));
                }
                _ => {}
            }
        }
        (opened, standing.len())
    }

    fn of(&self, method: &str, direction: Direction) -> impl Iterator<Item = &Said> {
        self.0.iter().filter(move |said| said.method == method && said.direction == direction)
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves one connection of a client over one of its own to the member.
async fn carry(client: TcpStream, target: SocketAddr, log: Arc<Mutex<Vec<Said>>>) -> Result<(), Failure> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (requests, connection) = h2::client::handshake(server).await?;
    let driver = tokio::spawn(connection);
    let mut calls = h2::server::handshake(client).await?;
    while let Some(call) = calls.accept().await {
        let (request, response) = call?;
        // A stream that is reset ends its exchange, and nothing else.
        drop(tokio::spawn(exchange(request, response, requests.clone(), Arc::clone(&log))));
    }
    driver.abort();
    Ok(())
}

/// One unary call or stream.
async fn exchange(
    request: Request<RecvStream>,
    mut response: SendResponse<Bytes>,
    requests: SendRequest<Bytes>,
    log: Arc<Mutex<Vec<Said>>>,
) -> Result<(), h2::Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let exchange = NEXT.fetch_add(1, Ordering::Relaxed);
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let write_down = |direction, message| {
        let said = Said { exchange, method: method.clone(), direction, message };
        log.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    };
    let (head, questions) = request.into_parts();
    let (answer, to_server) = requests.ready().await?.send_request(Request::from_parts(head, ()), false)?;
    let up = pump(questions, to_server, |message| write_down(ToServer, message));
    let down = async {
        let (head, answers) = answer.await?.into_parts();
        let is_over = answers.is_end_stream();
        let to_client = response.send_response(http::Response::from_parts(head, ()), is_over)?;
        if is_over {
            return Ok(());
        }
        pump(answers, to_client, |message| write_down(ToClient, message)).await
    };
    tokio::select! {
        result = down => result,
        // The client took its call back.
        Err(error) = up => Err(error),
    }
}

/// Carries a body one way; tells of every message in it before passing it on. Who does not want to hear the rest of it, because
/// the call has been answered, is no error: the other direction will tell.
async fn pump(mut from: RecvStream, mut to: SendStream<Bytes>, tell: impl Fn(Bytes)) -> Result<(), h2::Error> {
    let mut rest = BytesMut::new();
    while let Some(chunk) = from.data().await {
        let chunk = chunk?;
        from.flow_control().release_capacity(chunk.len())?;
        rest.extend_from_slice(&chunk);
        while let Some(message) = next_message(&mut rest) {
            tell(message);
        }
        let is_over = from.is_end_stream();
        if to.send_data(chunk, is_over).is_err() || is_over {
            return Ok(());
        }
    }
    let _ = match from.trailers().await? {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    };
    Ok(())
}

/// Takes the first whole message out of `bytes`.
fn next_message(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(bytes.get(1..HEAD)?.try_into().ok()?) as usize;
    if bytes.len() < HEAD + length {
        return None;
    }
    bytes.advance(HEAD);
    Some(bytes.split_to(length).freeze())
}

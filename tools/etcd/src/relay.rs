//! A relay between clients and one member of etcd that understands gRPC: it shows every message that passes to a [`Gate`], which
//! says what becomes of it.
//!
//! It speaks HTTP/2 on both sides and reads frames of gRPC, not the client's code: what it shows is what was on the wire.

use std::{
    future::{pending, poll_fn},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest, server::SendResponse};
use http::{Request, Response};
use tokio::{net::TcpStream, task::AbortHandle, time::sleep};

use crate::{
    Direction::{self, ToClient, ToServer},
    Error,
    proxy::listen,
};

/// A flag and a length stand before every message of gRPC.
const HEAD: usize = 5;

/// One message on its way.
#[derive(Clone, Debug)]
pub struct Passing {
    /// Tells the exchanges apart: a unary call or a stream is one.
    pub exchange: u64,
    /// The last part of the path, such as `Txn`.
    pub method: Arc<str>,
    /// Which way it goes.
    pub direction: Direction,
    /// What it says, in protobuf.
    pub message: Bytes,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on at once.
    Pass,
    /// It is missing.
    Swallow,
    /// It and everything after it is missing in this direction, until the receiver ends the exchange.
    Silence,
    /// It goes on so much later, and what follows waits behind it. To the server it goes even when the client has taken its
    /// call back meanwhile: that is not told to the server then.
    Late(Duration),
}

/// Whoever decides.
pub trait Gate: Send + Sync + 'static {
    /// What becomes of this message. To be answered at once: whoever blocks here stops every relay of the process.
    fn judge(&self, passing: &Passing) -> Fate;

    /// The exchange is over; nothing more of it will pass.
    fn over(&self, _exchange: u64) {}
}

/// Forwards connections on loopback to one address. Dropping it ends no connection, but there will be no new ones.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    accepting: AbortHandle,
}

impl Relay {
    /// A relay for `target`, without TLS, on a free port.
    ///
    /// # Errors
    /// [`Error::Io`] when no port can be had.
    pub fn start(target: SocketAddr, gate: Arc<dyn Gate>) -> Result<Self, Error> {
        let (address, accepting) = listen(move |client, _, _| {
            let gate = Arc::clone(&gate);
            // A connection that breaks is the business of those at its ends.
            async move { drop(carry(client, target, gate).await) }
        })?;
        Ok(Self { address, accepting })
    }

    /// The address to connect to instead of the target's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Serves one connection of a client over one of its own to the member.
async fn carry(client: TcpStream, target: SocketAddr, gate: Arc<dyn Gate>) -> Result<(), Failure> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (requests, connection) = h2::client::handshake(server).await?;
    // Ends with its last exchange: what is late must arrive although the client has closed the connection.
    tokio::spawn(connection);
    let mut calls = h2::server::handshake(client).await?;
    while let Some(call) = calls.accept().await {
        let (request, response) = call?;
        // A stream that is reset ends its exchange, and nothing else.
        drop(tokio::spawn(exchange(request, response, requests.clone(), Arc::clone(&gate))));
    }
    Ok(())
}

/// One exchange, as the gate knows it.
struct Exchange {
    number: u64,
    method: Arc<str>,
    gate: Arc<dyn Gate>,
}

impl Exchange {
    fn judge(&self, direction: Direction, message: Bytes) -> Fate {
        self.gate.judge(&Passing { exchange: self.number, method: Arc::clone(&self.method), direction, message })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.gate.over(self.number);
    }
}

/// One unary call or stream.
async fn exchange(
    request: Request<RecvStream>,
    mut response: SendResponse<Bytes>,
    requests: SendRequest<Bytes>,
    gate: Arc<dyn Gate>,
) -> Result<(), h2::Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().into();
    let exchange = Exchange { number: NEXT.fetch_add(1, Ordering::Relaxed), method, gate };
    let (head, questions) = request.into_parts();
    let (answer, to_server) = requests.ready().await?.send_request(Request::from_parts(head, ()), false)?;
    let up = pump(ToServer, questions, to_server, &exchange);
    let down = async {
        let (head, answers) = answer.await?.into_parts();
        let is_over = answers.is_end_stream();
        let to_client = response.send_response(Response::from_parts(head, ()), is_over)?;
        if is_over {
            return Ok(());
        }
        pump(ToClient, answers, to_client, &exchange).await
    };
    tokio::select! {
        result = down => result,
        // The client took its call back.
        Err(error) = up => Err(error),
    }
}

/// Carries messages one way, each as the gate says. Who does not want to hear the rest of it, because the call has been
/// answered, is no error: the other direction will tell.
async fn pump(
    direction: Direction,
    mut from: RecvStream,
    mut to: SendStream<Bytes>,
    exchange: &Exchange,
) -> Result<(), h2::Error> {
    let (mut rest, mut was_late) = (BytesMut::new(), false);
    while let Some(chunk) = from.data().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(_) if was_late && direction == ToServer => break,
            Err(error) => return Err(error),
        };
        from.flow_control().release_capacity(chunk.len())?;
        rest.extend_from_slice(&chunk);
        while let Some(framed) = next_message(&mut rest) {
            match exchange.judge(direction, framed.slice(HEAD..)) {
                Fate::Pass => {}
                Fate::Swallow => continue,
                Fate::Silence => return silence(from, to).await,
                Fate::Late(after) => {
                    was_late = true;
                    sleep(after).await;
                }
            }
            if to.send_data(framed, false).is_err() {
                return Ok(());
            }
        }
    }
    let _ = match from.trailers().await {
        Ok(Some(trailers)) => to.send_trailers(trailers),
        Ok(None) => to.send_data(Bytes::new(), true),
        // The server is told of a regular end, so that it carries out what it got.
        Err(_) if was_late && direction == ToServer => to.send_data(Bytes::new(), true),
        Err(error) => return Err(error),
    };
    Ok(())
}

/// Listens, and says nothing, until the receiver ends it.
async fn silence(mut from: RecvStream, mut to: SendStream<Bytes>) -> Result<(), h2::Error> {
    let listen = async {
        while let Some(chunk) = from.data().await {
            from.flow_control().release_capacity(chunk?.len())?;
        }
        pending().await
    };
    tokio::select! {
        result = listen => result,
        reset = poll_fn(|context| to.poll_reset(context)) => reset.map(drop),
    }
}

/// Takes the first whole message out of `bytes`, with what stands before it.
fn next_message(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(bytes.get(1..HEAD)?.try_into().ok()?) as usize;
    (bytes.len() >= HEAD + length).then(|| bytes.split_to(HEAD + length).freeze())
}

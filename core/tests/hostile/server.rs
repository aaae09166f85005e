//! A server on loopback that speaks gRPC and is no etcd: every call gets the same answer, whatever it was.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::{Reason, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use tokio::net::{TcpListener, TcpStream};

/// What it answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// One message with these bytes, and that all is well.
    Message(Vec<u8>),
    /// These bytes as they are, not framed, and that all is well.
    Raw(Vec<u8>),
    /// A refusal with this code and message.
    Status(u16, &'static str),
    /// A page, as from a server of the Web.
    Page,
    /// The beginning of an answer, and a reset.
    Reset,
    /// Nothing at all.
    Silence,
    /// The same message again and again, without an end.
    Flood(Vec<u8>),
}

/// Starts it; it ends with the runtime of the test.
pub async fn start(answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp, answer.clone()));
        }
    });
    address
}

async fn serve(tcp: TcpStream, answer: Answer) -> Result<(), h2::Error> {
    let mut calls = h2::server::handshake(tcp).await?;
    while let Some(call) = calls.accept().await {
        let (request, respond) = call?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let mut body = request.into_body();
            // etcd, too, reads the question first.
            let _ = body.data().await;
            let _ = reply(respond, answer).await;
        });
    }
    Ok(())
}

async fn reply(mut respond: SendResponse<Bytes>, answer: Answer) -> Result<(), h2::Error> {
    let head = |kind: &str| Response::builder().header("content-type", kind).body(()).expect("a good head");
    let trailers = |code: u16, message: &str| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(code));
        if let Ok(message) = HeaderValue::from_str(message) {
            trailers.insert("grpc-message", message);
        }
        trailers
    };
    match answer {
        Answer::Message(message) => {
            let mut stream = respond.send_response(head("application/grpc"), false)?;
            stream.send_data(framed(&message), false)?;
            stream.send_trailers(trailers(0, ""))
        }
        Answer::Raw(bytes) => {
            let mut stream = respond.send_response(head("application/grpc"), false)?;
            stream.send_data(bytes.into(), false)?;
            stream.send_trailers(trailers(0, ""))
        }
        Answer::Status(code, message) => {
            let mut stream = respond.send_response(head("application/grpc"), false)?;
            stream.send_trailers(trailers(code, message))
        }
        Answer::Page => {
            let mut stream = respond.send_response(head("text/html"), false)?;
            stream.send_data(Bytes::from_static(b"<html>\x1b[2J404</html>"), true)
        }
        Answer::Reset => {
            let mut stream = respond.send_response(head("application/grpc"), false)?;
            stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 1]), false)?;
            stream.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
        Answer::Silence => std::future::pending().await,
        Answer::Flood(message) => {
            let mut stream = respond.send_response(head("application/grpc"), false)?;
            let frame = framed(&message);
            loop {
                stream.reserve_capacity(frame.len());
                match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
                    Some(Ok(room)) if room >= frame.len() => stream.send_data(frame.clone(), false)?,
                    Some(Ok(_)) => {}
                    _ => return Ok(()),
                }
            }
        }
    }
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

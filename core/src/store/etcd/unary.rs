//! A channel for unary calls: the last frame of a request says that it is the last.
//!
//! tonic sends the end of a request as an empty frame of its own, because any request could go on. One that consists of a single
//! message ends with it: hyper then writes headers, message and end at once, and etcd is woken once instead of three times.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::{Status, body::Body, transport::Channel};
use tower_service::Service;

/// A channel on which every request is a single message.
#[derive(Clone)]
pub(super) struct Unary(pub(super) Channel);

impl Service<http::Request<Body>> for Unary {
    type Response = http::Response<Body>;
    type Error = <Channel as Service<http::Request<Body>>>::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.call(request.map(|body| Body::new(Single { body, is_taken: false })))
    }
}

/// A body that is over with its first frame of data.
struct Single {
    body: Body,
    is_taken: bool,
}

impl HttpBody for Single {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.is_taken {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_taken = matches!(&frame, Some(Ok(frame)) if frame.is_data());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.is_taken || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

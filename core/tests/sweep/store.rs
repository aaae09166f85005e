//! A real etcd behind a door at which one fault is played: the rest passes unchanged.

use std::{sync::Arc, time::Duration};

use leasehold::store::{
    ErrorKind, RenewalStream, Reply, Request, Store, StoreError, StoreFuture, WatchStream, etcd::EtcdStore,
};
use tokio::{
    sync::mpsc::{self, Receiver, UnboundedSender},
    task::JoinHandle,
    time::sleep,
};

use crate::tally::{Fault, Kind, Tally};

/// Longer than etcd needs for anything here: what is sent late is not given up.
const LONG: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct FaultyStore {
    pub inner: EtcdStore,
    pub tally: Arc<Tally>,
}

impl Store for FaultyStore {
    fn call(&self, request: Request, timeout: Duration) -> StoreFuture<Reply> {
        let (inner, tally) = (self.inner.clone(), self.tally.clone());
        tally.note_lease(&request);
        let kind = Kind::of(&request);
        let fault = tally.ask(kind);
        Box::pin(async move {
            let send = |request, after| send(&inner, &tally, request, after);
            let timed_out = || Err(StoreError::ambiguous(ErrorKind::Timeout, "no answer in time, as planted"));
            let result = match fault {
                None => inner.call(request, timeout).await,
                Some(Fault::Lost | Fault::Silent) => {
                    send(request, Duration::ZERO);
                    sleep(timeout).await;
                    timed_out()
                }
                Some(Fault::LateRequest(after)) => {
                    send(request, after);
                    sleep(timeout).await;
                    timed_out()
                }
                Some(Fault::Broken) => {
                    let _ = send(request, Duration::ZERO).await;
                    Err(StoreError::ambiguous(ErrorKind::Unavailable, "the connection broke, as planted"))
                }
                Some(Fault::LateReply(after)) => {
                    let sent = send(request, Duration::ZERO);
                    sleep(after).await;
                    sent.await.expect("it does not panic")
                }
                Some(Fault::Refused) => {
                    Err(StoreError::refused(ErrorKind::Unavailable, "connection refused, as planted"))
                }
            };
            tally.answer(kind);
            result
        })
    }

    fn renewals(&self, hedge: u32) -> RenewalStream {
        let RenewalStream { requests, replies } = self.inner.renewals(hedge);
        let requests = pass_requests(&self.tally, Kind::RenewalRequest, requests);
        RenewalStream { requests, replies: pass_replies(&self.tally, Kind::RenewalReply, replies) }
    }

    fn watches(&self) -> WatchStream {
        let WatchStream { requests, replies } = self.inner.watches();
        let requests = pass_requests(&self.tally, Kind::WatchRequest, requests);
        WatchStream { requests, replies: pass_replies(&self.tally, Kind::WatchReply, replies) }
    }
}

/// Sends `request` after a while, whatever becomes of its caller.
fn send(
    inner: &EtcdStore,
    tally: &Arc<Tally>,
    request: Request,
    after: Duration,
) -> JoinHandle<Result<Reply, StoreError>> {
    let (inner, under_way) = (inner.clone(), tally.set_out());
    tokio::spawn(async move {
        sleep(after).await;
        let result = inner.call(request, LONG).await;
        drop(under_way);
        result
    })
}

fn pass_requests<Q: Send + 'static>(tally: &Arc<Tally>, kind: Kind, to: UnboundedSender<Q>) -> UnboundedSender<Q> {
    let tally = tally.clone();
    let (requests, mut asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(request) = asked.recv().await {
            match tally.ask(kind) {
                Some(Fault::LateRequest(after)) => {
                    let _under_way = tally.set_out();
                    sleep(after).await;
                }
                Some(_) => continue,
                None => {}
            }
            if to.send(request).is_err() {
                return;
            }
        }
    });
    requests
}

fn pass_replies<R: Send + 'static>(
    tally: &Arc<Tally>,
    kind: Kind,
    mut from: Receiver<Result<R, StoreError>>,
) -> Receiver<Result<R, StoreError>> {
    let tally = tally.clone();
    let (to, replies) = mpsc::channel(64);
    tokio::spawn(async move {
        loop {
            let reply = tokio::select! {
                reply = from.recv() => reply,
                () = to.closed() => None,
            };
            let Some(mut reply) = reply else { return };
            match reply.as_ref().ok().and_then(|_| tally.ask(kind)) {
                Some(Fault::LateReply(after)) => sleep(after).await,
                Some(Fault::Silent) => {
                    // Until it ends: by the caller, or by etcd.
                    while from.recv().await.is_some() {}
                    return;
                }
                Some(Fault::Broken) => {
                    reply = Err(StoreError::ambiguous(ErrorKind::Unavailable, "the stream broke, as planted"));
                }
                Some(_) => continue,
                None => {}
            }
            let is_over = reply.is_err();
            tally.answer(kind);
            if to.send(reply).await.is_err() || is_over {
                return;
            }
        }
    });
    replies
}

//! Renewals and watches: streams in both directions, each run by a task of its own that lives as long as the stream.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use etcd_client::proto::{PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse, PbWatchRequest, PbWatchResponse};
use prost::Message;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::Streaming;

use super::{
    auth::Pass,
    cluster::Cluster,
    convert,
    errors::{Failure, Next, Phase, cancelled_watch},
};
use crate::{
    clock,
    store::{
        ErrorKind, LeaseId, RenewalStream, Renewed, STREAM_BACKLOG, StoreError, WatchId, WatchReply, WatchRequest,
        WatchStream,
    },
};

/// How long a stream waits for a token before it gives up.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A renewal that waited this long when its stream was dropped says something about the endpoint.
const SILENCE: Duration = Duration::from_millis(500);

/// What one kind of stream says and understands.
trait Dialogue: Send + 'static {
    /// gRPC path of the call.
    const PATH: &'static str;
    /// What the caller sends.
    type Request: Send + 'static;
    /// What the caller gets.
    type Reply: Send + 'static;
    /// What etcd is sent.
    type Question: Message + 'static;
    /// What etcd sends.
    type Answer: Message + Default + 'static;

    /// The message for a request.
    fn ask(&mut self, request: Self::Request) -> Self::Question;

    /// What the caller is told; nothing if the answer says nothing new.
    ///
    /// # Errors
    /// The answer ends the stream.
    fn understand(&mut self, endpoint: &str, answer: Self::Answer) -> Result<Option<Self::Reply>, Failure>;
}

/// Opens a stream of renewals. See [`Store::renewals`](crate::store::Store::renewals).
pub(super) fn renewals(cluster: &Arc<Cluster>, hedge: u32) -> RenewalStream {
    let (index, silent) = cluster.endpoints().for_renewals(hedge, clock::now());
    if silent {
        cluster.member(index).reconnect();
    }
    let dialogue = Renewals { cluster: Arc::clone(cluster), index, unanswered: VecDeque::new() };
    let (requests, replies) = start(cluster, index, dialogue);
    RenewalStream { requests, replies }
}

/// Opens a stream of watches. See [`Store::watches`](crate::store::Store::watches).
pub(super) fn watches(cluster: &Arc<Cluster>) -> WatchStream {
    let (requests, replies) = start(cluster, cluster.best(), Watches::default());
    WatchStream { requests, replies }
}

type Ends<D> =
    (mpsc::UnboundedSender<<D as Dialogue>::Request>, mpsc::Receiver<Result<<D as Dialogue>::Reply, StoreError>>);

fn start<D: Dialogue>(cluster: &Arc<Cluster>, index: usize, dialogue: D) -> Ends<D> {
    let (requests, incoming) = mpsc::unbounded_channel();
    let (outgoing, replies) = mpsc::channel(STREAM_BACKLOG);
    let cluster = Arc::clone(cluster);
    tokio::spawn(async move {
        if let Err(error) = run(&cluster, index, dialogue, incoming, &outgoing).await {
            // Nobody listens any more: nobody misses it.
            let _ = outgoing.send(Err(error)).await;
        }
    });
    (requests, replies)
}

/// Logs in where that is needed, then runs the stream to its end.
async fn run<D: Dialogue>(
    cluster: &Arc<Cluster>,
    index: usize,
    dialogue: D,
    incoming: mpsc::UnboundedReceiver<D::Request>,
    outgoing: &mpsc::Sender<Result<D::Reply, StoreError>>,
) -> Result<(), StoreError> {
    let pass = cluster.pass(Instant::now() + LOGIN_TIMEOUT).await?;
    let Err(failure) = converse(cluster, index, dialogue, incoming, outgoing, &pass).await else { return Ok(()) };
    if failure.avoid {
        cluster.failed(index);
    }
    if failure.next == Next::NewToken && cluster.refuse(&pass) {
        // The next stream fetches a token first, so this is a passing trouble; if the login itself is refused, that one says so.
        return Err(StoreError { kind: ErrorKind::Unavailable, ..failure.error });
    }
    Err(failure.error)
}

/// Passes messages on in both directions until one side ends the stream. Returns without a failure when the caller did.
async fn converse<D: Dialogue>(
    cluster: &Arc<Cluster>,
    index: usize,
    mut dialogue: D,
    mut incoming: mpsc::UnboundedReceiver<D::Request>,
    outgoing: &mpsc::Sender<Result<D::Reply, StoreError>>,
    pass: &Pass,
) -> Result<(), Failure> {
    let member = cluster.member(index);
    let (questions, asked) = mpsc::unbounded_channel();
    // etcd sends nothing, not even headers, before it was asked something.
    let asked = UnboundedReceiverStream::new(asked);
    let opening = member.open::<D::Question, D::Answer>(D::PATH, asked, pass.token.as_ref());
    let mut opening = std::pin::pin!(opening);
    let mut answers: Option<Streaming<D::Answer>> = None;
    loop {
        let answer = tokio::select! {
            request = incoming.recv() => match request {
                // The transport has dropped its end: the answer that says why is on its way.
                Some(request) => { let _ = questions.send(dialogue.ask(request)); continue }
                None => return Ok(()),
            },
            () = outgoing.closed() => return Ok(()),
            opened = &mut opening, if answers.is_none() => match opened {
                Ok(stream) => { answers = Some(stream); continue }
                Err(status) => Some(Err(status)),
            },
            Some(answer) = async { Some(answers.as_mut()?.next().await) }, if answers.is_some() => answer,
        };
        match answer {
            Some(Ok(answer)) => {
                let reply = dialogue.understand(&member.name, answer)?;
                cluster.answered(index);
                // Whoever does not read makes the server wait, not our memory grow.
                if let Some(reply) = reply
                    && outgoing.send(Ok(reply)).await.is_err()
                {
                    return Ok(());
                }
            }
            Some(Err(status)) => return Err(member.classify(&status, Phase::Read)),
            None => {
                let error = StoreError::refused(
                    ErrorKind::Unavailable,
                    format!("{}: the server ended the stream", member.name),
                );
                return Err(Failure { error, avoid: true, next: Next::Stop });
            }
        }
    }
}

/// Renewals of any number of leases, acknowledged in the order in which they were asked for.
struct Renewals {
    cluster: Arc<Cluster>,
    index: usize,
    /// The renewals that have no acknowledgement yet, and when each was passed on.
    unanswered: VecDeque<(LeaseId, Instant)>,
}

impl Dialogue for Renewals {
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseKeepAlive";
    type Request = LeaseId;
    type Reply = Renewed;
    type Question = PbLeaseKeepAliveRequest;
    type Answer = PbLeaseKeepAliveResponse;

    fn ask(&mut self, lease: LeaseId) -> PbLeaseKeepAliveRequest {
        self.unanswered.push_back((lease, Instant::now()));
        self.cluster.endpoints().renewal_sent(self.index);
        PbLeaseKeepAliveRequest { id: lease.0 }
    }

    fn understand(&mut self, endpoint: &str, answer: PbLeaseKeepAliveResponse) -> Result<Option<Renewed>, Failure> {
        // Acknowledgements come in order: one for another lease, or for none, would be taken for a renewal that never was.
        if self.unanswered.front().is_none_or(|(lease, _)| lease.0 != answer.id) {
            return Err(Failure::nonsense(endpoint, "acknowledges a renewal that was not asked for", Phase::Read));
        }
        self.unanswered.pop_front();
        self.cluster.endpoints().renewals_settled(self.index, 1);
        Ok(Some(Renewed { lease: LeaseId(answer.id), ttl: answer.ttl }))
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        let Some((_, oldest)) = self.unanswered.front() else { return };
        let mut endpoints = self.cluster.endpoints();
        endpoints.renewals_settled(self.index, self.unanswered.len() as u32);
        if oldest.elapsed() >= SILENCE {
            endpoints.failed(self.index, clock::now());
        }
    }
}

/// Any number of watches.
#[derive(Default)]
struct Watches {
    /// Watches asked for and not answered yet. etcd answers in this order, and without the id when it refuses one.
    asked: VecDeque<WatchId>,
}

impl Dialogue for Watches {
    const PATH: &'static str = "/etcdserverpb.Watch/Watch";
    type Request = WatchRequest;
    type Reply = WatchReply;
    type Question = PbWatchRequest;
    type Answer = PbWatchResponse;

    fn ask(&mut self, request: WatchRequest) -> PbWatchRequest {
        if let WatchRequest::Create(id, _) = &request {
            self.asked.push_back(*id);
        }
        convert::watch_request(request)
    }

    fn understand(&mut self, endpoint: &str, answer: PbWatchResponse) -> Result<Option<WatchReply>, Failure> {
        let nonsense = |what| Failure::nonsense(endpoint, what, Phase::Read);
        let first = if answer.created { self.asked.pop_front() } else { None };
        let id = first.unwrap_or(WatchId(answer.watch_id));
        if answer.canceled {
            // The answer to our own cancel gives no reason.
            if !answer.created && answer.compact_revision == 0 && answer.cancel_reason.is_empty() {
                return Ok(None);
            }
            let failure = cancelled_watch(endpoint, &answer.cancel_reason, answer.compact_revision);
            // The token belongs to the stream: with a stale one it can create no watch any more.
            if failure.next == Next::NewToken {
                return Err(failure);
            }
            return Ok(Some(WatchReply::Cancelled { id, error: failure.error }));
        }
        if answer.created {
            let (revision, _) = convert::header(answer.header).map_err(nonsense)?;
            return Ok(Some(WatchReply::Created { id, revision }));
        }
        // A message without events only tells how far the watch has come.
        let events =
            answer.events.into_iter().map(convert::watch_event).collect::<Result<Vec<_>, _>>().map_err(nonsense)?;
        Ok((!events.is_empty()).then_some(WatchReply::Events { id, events }))
    }
}

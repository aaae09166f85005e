//! Requests that share a transaction: enqueues, tries and deletes of places, each with its conditions, as nested transactions.
//!
//! A commit costs etcd and the disk much the same, whatever is in it. So while requests are on their way, further ones are gathered
//! until one of those is answered, for a moment at most, and then go together. Nobody waits when nothing is on its way.
//!
//! etcd judges the conditions of nested transactions before it writes anything of the outer one. So at most one request that joins a
//! name goes along: two would both see it empty, and would have one create revision. And a try never goes with a delete of its name:
//! it would lose to our own release.
//!
//! What becomes of the whole becomes of each. If it was refused, each is sent alone: perhaps only one of them was at fault. If its
//! fate is unknown, so is the fate of each.

use std::time::Duration;

use super::{Action, Asked, Hub, RpcId, company::Joining, history::Stamp};
use crate::{
    clock::Moment,
    store::{ErrorKind, Op, OpReply, Reply, ReplyBody, Request, StoreError, Txn, TxnReply},
    terms::QueueId,
};

/// When requests share a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batching {
    /// How many do at most; 1 is nobody.
    pub most: usize,
    /// So many transactions are on their way before further requests wait for one of them.
    pub ahead: usize,
}

impl Batching {
    /// Each request goes alone.
    pub const OFF: Self = Self { most: 1, ..Self::USUAL };
    /// What is best by measurement: while etcd works on one, the next arrives. Nested in one of 32, the largest of ours, which deletes
    /// 64 keys, fits etcd's default limit of 128 operations, in which the outer ones count.
    pub const USUAL: Self = Self { most: 32, ahead: 2 };
}

/// How many keys such a transaction writes at most: a commit is to stay short.
const MOST_KEYS: usize = 64;
/// How long a request waits for others at most, however long etcd takes.
const MOMENT: Duration = Duration::from_millis(5);

/// A request that waits for company, or has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    rpc: RpcId,
    asked: Asked,
    kind: Kind,
}

/// What matters about a request to those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Join,
    Try,
    Delete,
}

impl Part {
    /// The names that it is about, and how many keys it writes in each.
    fn queues(&self) -> impl Iterator<Item = (QueueId, usize)> {
        let (joins, deletes) = match &self.asked {
            Asked::Join(places) => (&places[..], &[][..]),
            Asked::Delete(places) => (&[][..], &places[..]),
            _ => (&[][..], &[][..]),
        };
        let joins = joins.iter().map(|joining| (joining.queue, 1));
        joins.chain(deletes.iter().map(|(queue, places)| (*queue, places.len())))
    }

    fn keys(&self) -> usize {
        self.queues().map(|(_, keys)| keys).sum()
    }

    /// Whether the two may share a transaction.
    fn goes_with(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (Kind::Delete, Kind::Join | Kind::Delete) | (Kind::Join, Kind::Delete) => true,
            (Kind::Join | Kind::Try, Kind::Join | Kind::Try)
            | (Kind::Delete, Kind::Try)
            | (Kind::Try, Kind::Delete) => {
                self.queues().all(|(queue, _)| other.queues().all(|(of_other, _)| of_other != queue))
            }
        }
    }
}

/// What is gathered, and what is on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Batches {
    gathered: Vec<Part>,
    /// How many keys they write.
    keys: usize,
    /// Since when the first of them waits.
    since: Option<Moment>,
    /// Transactions on their way.
    sent: usize,
}

impl Batches {
    /// How many requests wait for company.
    pub(super) fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Nobody waits for an answer any more.
    pub(super) fn close(&mut self) {
        self.gathered.clear();
        (self.keys, self.since) = (0, None);
    }

    /// A transaction was answered.
    pub(super) fn answered(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }

    /// When [`Hub::send_gathered`] has something to do, whatever else happens.
    pub(super) fn wake(&self) -> Option<Moment> {
        self.since.map(|since| since + MOMENT)
    }

    fn takes(&self, part: &Part) -> bool {
        self.keys + part.keys() <= MOST_KEYS && self.gathered.iter().all(|other| part.goes_with(other))
    }

    fn is_due(&self, now: Moment, ahead: usize) -> bool {
        !self.gathered.is_empty() && (self.sent < ahead || self.wake().is_some_and(|at| now >= at))
    }
}

impl Hub {
    /// A request may go: at once, or with others.
    pub(super) fn gather(&mut self, now: Moment, rpc: RpcId, asked: Asked, out: &mut Vec<Action>) {
        let tries = |joining: &Joining| self.queues.get(joining.queue).is_some_and(|queue| queue.tries(joining.place));
        let kind = match &asked {
            Asked::Join(places) if places.iter().any(tries) => Kind::Try,
            Asked::Join(_) => Kind::Join,
            _ => Kind::Delete,
        };
        let part = Part { rpc, asked, kind };
        if !self.calls.batches.takes(&part) {
            self.send_together(out);
        }
        let batches = &mut self.calls.batches;
        batches.keys += part.keys();
        batches.since.get_or_insert(now);
        batches.gathered.push(part);
        if batches.gathered.len() >= self.config.batching.most {
            self.send_together(out);
        }
    }

    /// Sends what was gathered, if it is to wait no longer.
    pub(super) fn send_gathered(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.calls.batches.is_due(now, self.config.batching.ahead) {
            self.send_together(out);
        }
    }

    fn send_together(&mut self, out: &mut Vec<Action>) {
        let parts = std::mem::take(&mut self.calls.batches.gathered);
        self.calls.batches.close();
        let mut ready: Vec<(Part, Txn)> = Vec::with_capacity(parts.len());
        for mut part in parts {
            match self.transaction(&mut part.asked) {
                Some(txn) => ready.push((part, txn)),
                None => self.calls.forget(&part.asked), // nobody wants it any more
            }
        }
        if ready.len() <= 1 {
            if let Some((Part { rpc, asked, .. }, txn)) = ready.pop() {
                self.send_txn(rpc, asked, txn, out);
            }
            return;
        }
        let (parts, txns): (Vec<Part>, Vec<Txn>) = ready.into_iter().unzip();
        let whole = Txn { then: txns.into_iter().map(Op::Txn).collect(), ..Txn::default() };
        let rpc = RpcId(self.next_id());
        self.send_txn(rpc, Asked::Batch(parts), whole, out);
    }

    fn send_txn(&mut self, rpc: RpcId, asked: Asked, txn: Txn, out: &mut Vec<Action>) {
        self.calls.batches.sent += 1;
        self.calls.asked.insert(rpc, (asked, self.history.stamp()));
        out.push(Action::Call(rpc, Request::Txn(txn), self.config.call_timeout));
    }

    /// The transaction of an enqueue, a try or a delete, as things stand now; none if nobody wants it any more.
    fn transaction(&self, asked: &mut Asked) -> Option<Txn> {
        match asked {
            Asked::Join(places) => self.join_request(places),
            Asked::Delete(places) => Some(self.delete_request(places)),
            _ => None,
        }
    }

    /// The answer to several requests at once: each gets its own.
    pub(super) fn on_batch(
        &mut self,
        now: Moment,
        parts: Vec<Part>,
        stamp: Stamp,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        match result.and_then(|reply| take_apart(reply, parts.len())) {
            Ok(replies) => {
                for (Part { rpc, asked, .. }, reply) in parts.into_iter().zip(replies) {
                    self.on_answer(now, rpc, asked, stamp, Ok(reply), out);
                }
            }
            // Each of them would fare alike, or did.
            Err(error) if error.ambiguous || error.is_transient() => {
                for Part { rpc, asked, .. } in parts {
                    self.on_answer(now, rpc, asked, stamp, Err(error.clone()), out);
                }
            }
            Err(error) => {
                tracing::debug!(%error, requests = parts.len(), "etcd refused a transaction of several requests: each goes alone");
                for Part { rpc, mut asked, .. } in parts {
                    if let Some(txn) = self.transaction(&mut asked) {
                        self.calls.load += 1;
                        self.send_txn(rpc, asked, txn, out);
                    }
                }
            }
        }
    }
}

/// The replies of the transactions nested in one of `count`.
///
/// # Errors
/// It has another shape. All of it may have been done.
fn take_apart(reply: Reply, count: usize) -> Result<Vec<Reply>, StoreError> {
    let Reply { revision, cluster, body } = reply;
    let inner = match body {
        ReplyBody::Txn(TxnReply { succeeded: true, replies }) if replies.len() == count => {
            let each = replies.into_iter().map(|reply| match reply {
                OpReply::Txn(inner) => Some(Reply { revision, cluster, body: ReplyBody::Txn(inner) }),
                _ => None,
            });
            each.collect()
        }
        _ => None,
    };
    inner.ok_or_else(|| {
        StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to several requests at once has an unknown shape")
    })
}

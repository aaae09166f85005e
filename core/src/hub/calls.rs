//! The requests of one client: every one goes out here, and every reply comes in here.
//!
//! At most so many are on their way at a time. What is about keys waits its turn here, and its time-out runs from when it is sent:
//! ten thousand acquires at once all come through, and none of them keeps etcd from anybody else. Each queue has a lane, and the
//! lanes take turns, so a crowd for one name does not keep those of another waiting. Deletes and reads go before enqueues: they
//! are few, and others wait for what they bring. What sessions ask for does not wait at all.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{
    Action, Hub, RpcId,
    batches::{Batches, Part},
    company::Joining,
    history::Stamp,
    observers::Question,
};
use crate::{
    cleaner,
    clock::Moment,
    queue::Input as QueueInput,
    store::{LeaseId, Reply, Request, StoreError},
    terms::{PlaceId, QueueId, SessionId, Ticket},
};

/// What a reply is the answer to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// Whether it repeats a grant of unknown fate comes with it.
    Grant(SessionId, LeaseId, bool),
    /// All places that one caller needs.
    Join(Vec<Joining>),
    Delete(Vec<(QueueId, Vec<PlaceId>)>),
    /// Several of these at once.
    Batch(Vec<Part>),
    Read(QueueId),
    Check(QueueId, PlaceId),
    Chore(cleaner::Chore),
    Sweep(SessionId, LeaseId),
    /// Whether the lease of holds still lives whose keys vanished.
    Autopsy(SessionId),
    /// What an observer of an election asks.
    Observe(Ticket, Question),
    /// Whether this is still the same etcd.
    Probe,
}

/// The requests of one client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Calls {
    /// How many may be on their way.
    window: usize,
    /// How many are, and how many are gathered to share a transaction.
    pub(super) load: usize,
    /// Those that are, and what was known of etcd when they were sent.
    pub(super) asked: BTreeMap<RpcId, (Asked, Stamp)>,
    pub(super) batches: Batches,
    /// Those that wait their turn.
    unsent: BTreeMap<RpcId, (Asked, Option<Request>)>,
    /// The order of deletes and reads among them.
    urgent: VecDeque<RpcId>,
    /// The order of the enqueues of each queue.
    lanes: BTreeMap<QueueId, VecDeque<RpcId>>,
    /// Whose turn it is among the lanes; each is here once.
    turns: VecDeque<QueueId>,
    /// When a reply came last that was no failure.
    heard_at: Moment,
}

impl Calls {
    pub(super) fn new(window: usize) -> Self {
        Self {
            window,
            load: 0,
            asked: BTreeMap::new(),
            batches: Batches::default(),
            unsent: BTreeMap::new(),
            urgent: VecDeque::new(),
            lanes: BTreeMap::new(),
            turns: VecDeque::new(),
            heard_at: Moment::default(),
        }
    }

    /// Whether no reply is awaited.
    pub(super) fn are_idle(&self) -> bool {
        self.asked.is_empty() && self.batches.len() == 0
    }

    /// Whether this one still waits its turn.
    pub(super) fn is_unsent(&self, rpc: RpcId) -> bool {
        self.unsent.contains_key(&rpc)
    }

    /// Whether requests wait their turn.
    pub(super) fn have_backlog(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// When etcd last answered anything well.
    pub(super) fn heard_at(&self) -> Moment {
        self.heard_at
    }

    /// Takes back what was not sent yet; returns whether it was not.
    pub(super) fn withdraw(&mut self, rpc: RpcId) -> bool {
        self.unsent.remove(&rpc).is_some()
    }

    /// What queues asked to read and what was not sent yet is not sent any more: their views start anew. Sent now, it would pass for the
    /// answer that they await then, although it shows less than that, or is asked before their watches stand.
    pub(super) fn withdraw_reads(&mut self) {
        self.unsent.retain(|_, (asked, _)| !matches!(asked, Asked::Read(_)));
    }

    /// The client closes: what was not sent is not sent any more, and nobody waits for the rest but chores.
    pub(super) fn close(&mut self) {
        self.unsent.clear();
        self.urgent.clear();
        self.lanes.clear();
        self.turns.clear();
        self.load -= self.batches.len();
        self.batches.close();
    }

    /// The client is closed: nobody waits for anything.
    pub(super) fn forget_all(&mut self) {
        self.asked.clear();
        self.batches.close();
        self.load = 0;
    }

    /// These are over, or will never be sent.
    pub(super) fn forget(&mut self, asked: &Asked) {
        let requests = if let Asked::Batch(parts) = asked { parts.len() } else { 1 };
        self.load = self.load.saturating_sub(requests);
    }

    fn line_up(&mut self, rpc: RpcId, asked: Asked, request: Option<Request>) {
        let queue = match &asked {
            Asked::Join(places) => places.first().map(|joining| joining.queue),
            _ => None,
        };
        if let Some(queue) = queue {
            let lane = self.lanes.entry(queue).or_default();
            if lane.is_empty() {
                self.turns.push_back(queue);
            }
            lane.push_back(rpc);
        } else {
            self.urgent.push_back(rpc);
        }
        self.unsent.insert(rpc, (asked, request));
    }

    /// The next one to send. What was withdrawn is passed over.
    fn next(&mut self) -> Option<(RpcId, Asked, Option<Request>)> {
        while self.load < self.window && !self.unsent.is_empty() {
            let rpc = self.urgent.pop_front().or_else(|| {
                let queue = self.turns.pop_front()?;
                let lane = self.lanes.get_mut(&queue)?;
                let rpc = lane.pop_front();
                if lane.is_empty() {
                    self.lanes.remove(&queue);
                } else {
                    self.turns.push_back(queue);
                }
                rpc
            })?;
            if let Some((asked, request)) = self.unsent.remove(&rpc) {
                return Some((rpc, asked, request));
            }
        }
        None
    }
}

impl Hub {
    /// Asks etcd at once.
    pub(super) fn call(&mut self, asked: Asked, request: Request, timeout: Duration, out: &mut Vec<Action>) -> RpcId {
        let rpc = RpcId(self.next_id());
        self.calls.load += 1;
        self.calls.asked.insert(rpc, (asked, self.history.stamp()));
        out.push(Action::Call(rpc, request, timeout));
        rpc
    }

    /// Asks etcd when it is its turn. What an enqueue looks like depends on what is known of its queue then.
    pub(super) fn call_in_turn(
        &mut self,
        now: Moment,
        asked: Asked,
        request: Option<Request>,
        out: &mut Vec<Action>,
    ) -> RpcId {
        let rpc = RpcId(self.next_id());
        if self.calls.load < self.config.window {
            self.send(now, rpc, asked, request, out);
        } else {
            self.calls.line_up(rpc, asked, request);
        }
        rpc
    }

    /// Sends what there is room for.
    pub(super) fn send_next(&mut self, now: Moment, out: &mut Vec<Action>) {
        while let Some((rpc, asked, request)) = self.calls.next() {
            self.send(now, rpc, asked, request, out);
        }
    }

    fn send(&mut self, now: Moment, rpc: RpcId, asked: Asked, request: Option<Request>, out: &mut Vec<Action>) {
        if let Asked::Join(places) = &asked {
            self.on_join_sent(now, places);
        }
        if let Asked::Join(_) | Asked::Delete(_) = asked {
            self.calls.load += 1;
            self.gather(now, rpc, asked, out);
        } else if let Some(request) = request {
            self.calls.load += 1;
            self.calls.asked.insert(rpc, (asked, self.history.stamp()));
            out.push(Action::Call(rpc, request, self.config.call_timeout));
        }
    }

    pub(super) fn on_reply(
        &mut self,
        now: Moment,
        rpc: RpcId,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let Some((asked, stamp)) = self.calls.asked.remove(&rpc) else { return };
        self.calls.forget(&asked);
        if let Asked::Join(_) | Asked::Delete(_) | Asked::Batch(_) = asked {
            self.calls.batches.answered();
        }
        if result.is_ok() {
            self.calls.heard_at = now;
        }
        let result = self.check_history(now, stamp, result, out);
        match asked {
            Asked::Batch(parts) => self.on_batch(now, parts, stamp, result, out),
            one => self.on_answer(now, rpc, one, stamp, result, out),
        }
        self.send_next(now, out);
    }

    /// The answer to one request, which it had to itself or shared.
    pub(super) fn on_answer(
        &mut self,
        now: Moment,
        rpc: RpcId,
        asked: Asked,
        stamp: Stamp,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        match asked {
            Asked::Batch(_) => {} // has no batch in it
            // Its view has started anew, and awaits another answer.
            Asked::Read(_) if !self.history.is_of_now(stamp) => {}
            Asked::Grant(session, lease, is_repeated) => self.on_grant(now, (session, lease, is_repeated), result, out),
            Asked::Join(places) => self.on_join_answered(now, &places, result, out),
            Asked::Delete(places) => self.on_delete_answered(now, places, result, out),
            Asked::Check(queue, place) => self.with_queue(now, queue, QueueInput::Checked(place, result), out),
            Asked::Read(queue) => self.with_queue(now, queue, QueueInput::Read(result), out),
            Asked::Chore(chore) => self.on_chore_done(now, chore, result, out),
            Asked::Sweep(session, lease) => self.on_swept(now, (session, lease), result, out),
            Asked::Autopsy(session) => self.on_autopsy(now, rpc, session, result, out),
            Asked::Observe(ticket, question) => self.on_observer_answered(now, ticket, question, result, out),
            Asked::Probe => self.on_probed(now, result, out),
        }
    }
}

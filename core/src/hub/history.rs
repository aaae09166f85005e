//! One history of one etcd: whether what it says now can follow from what it said before. Sans I/O.
//!
//! Etcd's revision only grows, and an answer that a majority has confirmed is no older than anything that anybody was told before it
//! was asked for. So an answer with a lower revision than was seen **before its request was sent** proves another history: etcd
//! was restored from a backup, or lost its data. Requests cross each other on their way, so what came in after the request was
//! sent proves nothing. Another cluster id proves it, too; the same one proves nothing, as it is made of the cluster's token and
//! the addresses of its members.
//!
//! Whoever only holds asks nothing, and would not know. So a connection that breaks raises a doubt, and a doubt asks until it is
//! answered: a read for the history, then the keys of every lease that somebody holds with, because writes of others can have
//! passed the old revision by then.

use std::{sync::Arc, time::Duration};

use super::{Action, Asked, Hub};
use crate::{
    backoff::{Backoff, mix},
    clock::Moment,
    error::LostReason,
    queue::{Input, wire},
    store::{Reply, ReplyBody, StoreError, WatchReply},
    terms::SessionId,
};

/// Pauses between the questions of a doubt: short, because a holder is to be told within two seconds of etcd's return.
const ASK_AGAIN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(500));

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    number: u64,
    highest: i64,
    cluster: u64,
}

/// What an answer says about the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    /// It is the same.
    Same,
    /// Another one has begun.
    Restored,
    /// The answer is to a question of a former one.
    Bygone,
}

/// A connection broke: is everything still as it was?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Doubt {
    /// When to ask; `None` while the question is on its way.
    ask_at: Option<Moment>,
    failures: u32,
}

/// The history that a client knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// How many there were before.
    number: u64,
    /// The highest revision seen in it.
    highest: i64,
    /// The id of the cluster; 0 where it is not known.
    cluster: u64,
    doubt: Option<Doubt>,
    /// The name that was asked for last: one that the user may read.
    name: Option<Arc<str>>,
}

impl History {
    /// To be kept with a request that is sent now.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp { number: self.number, highest: self.highest, cluster: self.cluster }
    }

    /// Whether a request of `stamp` was sent in this history.
    pub(super) fn is_of_now(&self, stamp: Stamp) -> bool {
        stamp.number == self.number
    }

    /// The highest revision seen in it.
    pub(super) fn highest(&self) -> i64 {
        self.highest
    }

    /// Somebody asks for this lock.
    pub(super) fn remember(&mut self, name: &Arc<str>) {
        self.name = Some(name.clone());
    }

    /// A watch told of this revision.
    fn hear(&mut self, revision: i64) {
        self.highest = self.highest.max(revision);
    }

    /// Judges the answer to a request of `stamp`.
    fn judge(&mut self, stamp: Stamp, reply: &Reply) -> Verdict {
        if stamp.number != self.number {
            return Verdict::Bygone;
        }
        let is_other = reply.cluster != 0 && stamp.cluster != 0 && reply.cluster != stamp.cluster;
        // The leader answers that question from what it has applied so far, and may be behind.
        let is_linearizable = !matches!(reply.body, ReplyBody::LeaseTimeToLive { .. });
        if is_other || (is_linearizable && reply.revision < stamp.highest) {
            (self.number, self.highest, self.cluster) = (self.number + 1, reply.revision, reply.cluster);
            return Verdict::Restored;
        }
        self.hear(reply.revision);
        if reply.cluster != 0 {
            self.cluster = reply.cluster;
        }
        Verdict::Same
    }

    /// When [`Hub::tick_history`] has something to do.
    pub(super) fn wake(&self) -> Option<Moment> {
        self.doubt.as_ref()?.ask_at
    }
}

impl Hub {
    /// What an answer says about the history; where another one has begun, everybody is told. Hands the answer back if its asker may
    /// believe it.
    pub(super) fn check_history(
        &mut self,
        now: Moment,
        stamp: Stamp,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) -> Result<Reply, StoreError> {
        let reply = result?;
        match self.history.judge(stamp, &reply) {
            Verdict::Same => return Ok(reply),
            Verdict::Restored => self.begin_anew(now, reply.revision, stamp.highest, out),
            Verdict::Bygone => {}
        }
        Err(StoreError::ambiguous(
            crate::store::ErrorKind::Unavailable,
            "etcd was restored or wiped while it answered; what it says is about another history",
        ))
    }

    /// Nothing that was known is worth anything: views start anew, so that nobody wins by them, and all sessions are lost.
    fn begin_anew(&mut self, now: Moment, revision: i64, before: i64, out: &mut Vec<Action>) {
        tracing::warn!(
            revision,
            before,
            "etcd went back in time: it was restored from a backup or lost its data; every lock of this client is lost, and fencing \
             tokens may repeat"
        );
        self.calls.withdraw_reads();
        for queue in self.queues.ids() {
            self.with_queue(now, queue, Input::Restart, out);
        }
        self.restart_observers(now, out);
        for session in self.sessions.ids() {
            self.end_session(now, session, LostReason::StoreRestored, out);
        }
    }

    /// A watch told something.
    pub(super) fn hear(&mut self, reply: &WatchReply) {
        match reply {
            WatchReply::Created { revision, .. } => self.history.hear(*revision),
            WatchReply::Events { events, .. } => {
                self.history.hear(events.iter().map(|event| event.revision).max().unwrap_or_default());
            }
            WatchReply::Cancelled { .. } => {}
        }
    }

    /// A connection broke. Who knows what comes back?
    pub(super) fn doubt(&mut self, now: Moment) {
        if self.stage == super::Stage::Open && self.history.doubt.is_none() {
            self.history.doubt = Some(Doubt { ask_at: Some(now + self.pause(1)), failures: 0 });
        }
    }

    /// The answer to the question of a doubt.
    pub(super) fn on_probed(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Action>) {
        let Some(doubt) = &mut self.history.doubt else { return };
        if let Err(error) = &result
            && (error.is_transient() || error.ambiguous)
        {
            doubt.failures = doubt.failures.saturating_add(1);
            let failures = doubt.failures;
            let at = now + self.pause(failures);
            if let Some(doubt) = &mut self.history.doubt {
                doubt.ask_at = Some(at);
            }
            return;
        }
        // Answered, or refused by an etcd that is there.
        self.history.doubt = None;
        for session in self.sessions.ids() {
            if self.is_holding(session) {
                self.sweep_now(session, out);
            }
        }
    }

    /// Asks what is in doubt.
    pub(super) fn tick_history(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.history.wake().is_none_or(|at| at > now) {
            return;
        }
        // Also where nobody holds or waits: what the backup brings back of a session is in the way of others while it is renewed.
        let Some(name) = self.history.name.clone().filter(|_| !self.sessions.ids().is_empty()) else {
            self.history.doubt = None;
            return;
        };
        let request = wire::look(&wire::Prefix::new(&self.config.namespace, &name));
        if let Some(doubt) = &mut self.history.doubt {
            doubt.ask_at = None;
        }
        self.call(Asked::Probe, request, self.config.call_timeout, out);
    }

    fn pause(&self, failures: u32) -> Duration {
        ASK_AGAIN.pause(failures, mix(self.config.seed))
    }

    /// Whether anybody holds with this session.
    pub(super) fn is_holding(&self, session: SessionId) -> bool {
        let is_holding = |ticket| self.callers.get(ticket).is_some_and(|caller| caller.is_keeping());
        self.sessions.callers(session).any(is_holding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RangeReply;

    fn reply(revision: i64, cluster: u64) -> Reply {
        Reply { revision, cluster, body: ReplyBody::Range(RangeReply::default()) }
    }

    #[test]
    fn only_what_was_seen_before_a_request_was_sent_speaks_against_its_answer() {
        let mut history = History::default();
        let (first, second) = (history.stamp(), history.stamp());
        assert_eq!(history.judge(second, &reply(9, 0)), Verdict::Same);
        assert_eq!(history.judge(first, &reply(7, 0)), Verdict::Same, "it was on its way at the same time");
        let third = history.stamp();
        assert_eq!(history.judge(third, &reply(9, 0)), Verdict::Same, "nothing was written since");
        assert_eq!(history.judge(third, &reply(8, 0)), Verdict::Restored);
    }

    #[test]
    fn what_a_watch_told_counts_and_what_a_leader_says_of_a_lease_does_not() {
        let mut history = History::default();
        history.hear(9);
        let stamp = history.stamp();
        let behind = Reply { body: ReplyBody::LeaseTimeToLive { ttl: 5, keys: Vec::new() }, ..reply(3, 0) };
        assert_eq!(history.judge(stamp, &behind), Verdict::Same);
        assert_eq!(history.judge(stamp, &reply(8, 0)), Verdict::Restored);
    }

    #[test]
    fn another_cluster_is_another_history_whatever_its_revision() {
        let mut history = History::default();
        assert_eq!(history.judge(history.stamp(), &reply(5, 7)), Verdict::Same);
        assert_eq!(history.judge(history.stamp(), &reply(6, 0)), Verdict::Same, "not told");
        assert_eq!(history.judge(history.stamp(), &reply(99, 8)), Verdict::Restored);
        assert_eq!(history.judge(history.stamp(), &reply(100, 8)), Verdict::Same);
    }

    #[test]
    fn answers_to_questions_of_a_former_history_say_nothing_about_this_one() {
        let mut history = History::default();
        let old = history.stamp();
        history.hear(9);
        assert_eq!(history.judge(history.stamp(), &reply(2, 0)), Verdict::Restored);
        assert_eq!(history.judge(old, &reply(9, 0)), Verdict::Bygone);
        assert_eq!(history.judge(history.stamp(), &reply(2, 0)), Verdict::Same, "the old answer has not counted");
    }
}

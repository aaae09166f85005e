//! The hub's observers of elections: each is run here, and what it asks for and tells is passed on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Action, Asked, Hub, Stage, alarms::Alarms};
use crate::{
    clock::Moment,
    error::{Code, Error},
    observing::{Effect, Input, Observing},
    queue::wire::{self, Prefix},
    store::{WatchId, WatchReply},
    terms::Ticket,
    text,
};

/// How often a read looks for what the watch of an observer has not told: somewhere in this range, different for each. A queue in
/// which somebody waits is looked after more often: an observer holds nothing.
const RECHECK: std::ops::Range<Duration> = Duration::from_secs(5)..Duration::from_secs(10);

/// What an observer asks etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// Everything.
    Read(u32),
    /// Who leads.
    Check(u32),
}

/// An observer and its alarm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept {
    name: Arc<str>,
    prefix: Prefix,
    observing: Observing,
    alarm: Option<Moment>,
}

/// The observers of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Observers {
    all: BTreeMap<Ticket, Kept>,
    /// The observer of each watch.
    watches: BTreeMap<WatchId, Ticket>,
}

impl Hub {
    pub(super) fn observe(&mut self, now: Moment, ticket: Ticket, name: Arc<str>, out: &mut Vec<Action>) {
        if self.stage != Stage::Open {
            let error = Error::new(Code::Closed, "the client is closed; open another one");
            out.push(Action::ObserverFailed(ticket, error));
            return;
        }
        self.history.remember(&name);
        let span = u64::try_from((RECHECK.end - RECHECK.start).as_nanos()).unwrap_or(u64::MAX);
        let recheck = RECHECK.start + Duration::from_nanos(self.random() % span);
        let prefix = Prefix::new(&self.config.namespace, &name);
        let observing = Observing::new(prefix.clone(), recheck, now + self.config.request_timeout);
        self.observers.all.insert(ticket, Kept { name, prefix, observing, alarm: None });
        self.with_observer(now, ticket, Input::Begin, out);
    }

    pub(super) fn unobserve(&mut self, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(mut kept) = self.observers.all.remove(&ticket) else { return };
        self.observer_alarms.set(ticket, &mut kept.alarm, None);
        if let Some(watch) = kept.observing.watch() {
            self.observers.watches.remove(&watch);
            out.push(Action::Unwatch(watch));
        }
    }

    fn with_observer(&mut self, now: Moment, ticket: Ticket, input: Input, out: &mut Vec<Action>) {
        let Some(kept) = self.observers.all.get_mut(&ticket) else { return };
        let (mut effects, next_id) = (Vec::new(), &mut self.next_id);
        let mut next_watch = || {
            *next_id += 1;
            WatchId(i64::try_from(*next_id).unwrap_or(i64::MAX))
        };
        kept.observing.handle(now, input, &mut next_watch, &mut effects);
        let wake = kept.observing.wake();
        self.observer_alarms.set(ticket, &mut kept.alarm, wake);
        let (name, prefix) = (kept.name.clone(), kept.prefix.clone());
        if kept.observing.is_over() {
            self.observers.all.remove(&ticket);
        }
        for effect in effects {
            match effect {
                Effect::Watch(watch, keys) => {
                    self.observers.watches.insert(watch, ticket);
                    out.push(Action::Watch(watch, keys));
                }
                Effect::Unwatch(watch) => {
                    self.observers.watches.remove(&watch);
                    out.push(Action::Unwatch(watch));
                }
                Effect::Read(round) => {
                    let asked = Asked::Observe(ticket, Question::Read(round));
                    self.call_in_turn(now, asked, Some(wire::snapshot(&prefix, None)), out);
                }
                Effect::Check(round) => {
                    let asked = Asked::Observe(ticket, Question::Check(round));
                    self.call_in_turn(now, asked, Some(wire::roll(&prefix)), out);
                }
                Effect::Saw(sight) => out.push(Action::Observed(ticket, sight)),
                Effect::Failed(error) => {
                    let error =
                        Error::from_store(&error, &format!("could not observe the election {}", text::quoted(&name)));
                    out.push(Action::ObserverFailed(ticket, error));
                }
            }
        }
    }

    /// The answer to what an observer asked.
    pub(super) fn on_observer_answered(
        &mut self,
        now: Moment,
        ticket: Ticket,
        question: Question,
        result: Result<crate::store::Reply, crate::store::StoreError>,
        out: &mut Vec<Action>,
    ) {
        let input = match question {
            Question::Read(round) => Input::Read(round, result),
            Question::Check(round) => Input::Checked(round, result),
        };
        self.with_observer(now, ticket, input, out);
    }

    /// Something came on a watch that is none of a queue's.
    pub(super) fn on_observer_watch(&mut self, now: Moment, id: WatchId, reply: WatchReply, out: &mut Vec<Action>) {
        let Some(ticket) = self.observers.watches.get(&id).copied() else { return };
        self.hear(&reply);
        if let WatchReply::Cancelled { error, .. } = &reply {
            tracing::debug!(%error, "the watch of an observer ended");
            self.observers.watches.remove(&id);
            self.doubt(now);
        }
        self.with_observer(now, ticket, Input::Watch(reply), out);
    }

    /// Another history has begun.
    pub(super) fn restart_observers(&mut self, now: Moment, out: &mut Vec<Action>) {
        let tickets: Vec<Ticket> = self.observers.all.keys().copied().collect();
        for ticket in tickets {
            self.with_observer(now, ticket, Input::Restart, out);
        }
    }

    pub(super) fn tick_observers(&mut self, now: Moment, out: &mut Vec<Action>) {
        for ticket in self.observer_alarms.due(now) {
            self.with_observer(now, ticket, Input::Wake, out);
        }
    }

    /// The client closes.
    pub(super) fn close_observers(&mut self, out: &mut Vec<Action>) {
        for (ticket, kept) in std::mem::take(&mut self.observers).all {
            out.extend(kept.observing.watch().map(Action::Unwatch));
            let error = Error::new(Code::Closed, "the client is closed; open another one");
            out.push(Action::ObserverFailed(ticket, error));
        }
        self.observer_alarms = Alarms::new();
    }
}

//! The hub's queues: each is run here, and what it asks for and tells is passed on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Action, Asked, Hub, callers::arrivals::Arrivals, sessions::Sessions};
use crate::{
    clock::Moment,
    error::LostReason,
    queue::{Effect, Host, Input, Queue, Taints, wire},
    store::{Key, LeaseId, WatchId, WatchReply},
    terms::QueueId,
};

/// How often a queue is read while somebody waits: somewhere in this range, different in every client and queue.
const RECHECK: std::ops::Range<Duration> = Duration::from_secs(2)..Duration::from_secs(5);

/// So many watches a client has before it watches no further holds. Then the sweeps of a lease find what vanished.
pub(super) const HOLD_WATCHES: usize = 1_000;

/// A queue and its alarm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    queue: Queue,
    arrivals: Arrivals,
    alarm: Option<Moment>,
}

/// The queues of a client, by number and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queues {
    all: BTreeMap<QueueId, Box<Kept>>,
    names: BTreeMap<Arc<str>, QueueId>,
    /// The queue of each watch.
    watches: BTreeMap<WatchId, QueueId>,
}

impl Queues {
    pub(super) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.all.get(&id).map(|kept| &kept.queue)
    }

    /// Our callers that wait there, in the order in which they came.
    pub(super) fn arrivals(&self, id: QueueId) -> Option<&Arrivals> {
        self.all.get(&id).map(|kept| &kept.arrivals)
    }

    pub(super) fn arrivals_mut(&mut self, id: QueueId) -> Option<&mut Arrivals> {
        self.all.get_mut(&id).map(|kept| &mut kept.arrivals)
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> usize {
        self.watches.len()
    }

    /// All of them.
    pub(super) fn ids(&self) -> Vec<QueueId> {
        self.all.keys().copied().collect()
    }

    /// Whether a place of ours has `key`, which stands below `namespace`.
    pub(super) fn use_key(&self, namespace: &str, key: &Key) -> bool {
        let text = key.to_text();
        let name = text.rsplit_once('/').and_then(|(name, _)| name.strip_prefix(namespace));
        name.and_then(|name| self.get(*self.names.get(name)?)).is_some_and(|queue| queue.uses(key))
    }
}

/// What a queue may ask while it works.
struct Desk<'a> {
    sessions: &'a Sessions,
    /// The highest revision seen.
    seen: i64,
    /// How many watches there are.
    watches: usize,
    next_id: &'a mut u64,
    opened: Vec<WatchId>,
}

impl Host for Desk<'_> {
    fn taints(&self, lease: LeaseId) -> &Taints {
        self.sessions.taints(lease)
    }

    fn seen(&self) -> i64 {
        self.seen
    }

    fn may_watch_hold(&self) -> bool {
        self.watches < HOLD_WATCHES
    }

    fn next_watch(&mut self) -> WatchId {
        *self.next_id += 1;
        let id = WatchId(i64::try_from(*self.next_id).unwrap_or(i64::MAX));
        self.opened.push(id);
        id
    }
}

impl Hub {
    pub(super) fn queue_of(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.queues.names.get(name) {
            return *id;
        }
        let id = QueueId(self.next_id());
        let span = u64::try_from((RECHECK.end - RECHECK.start).as_nanos()).unwrap_or(u64::MAX);
        let recheck = RECHECK.start + Duration::from_nanos(self.random() % span);
        let queue = Queue::new(&self.config.namespace, name.clone(), recheck);
        self.queues.all.insert(id, Box::new(Kept { queue, arrivals: Arrivals::new(), alarm: None }));
        self.queues.names.insert(name.clone(), id);
        id
    }

    /// Tells a queue what happened, and carries out what it asks for.
    pub(super) fn with_queue(&mut self, now: Moment, id: QueueId, input: Input, out: &mut Vec<Action>) {
        let Some(kept) = self.queues.all.get_mut(&id) else { return };
        let mut effects = Vec::new();
        let watches = self.queues.watches.len();
        let seen = self.history.highest();
        let mut desk = Desk { sessions: &self.sessions, seen, watches, next_id: &mut self.next_id, opened: Vec::new() };
        kept.queue.handle(now, input, &mut desk, &mut effects);
        let opened = desk.opened;
        self.queues.watches.extend(opened.into_iter().map(|watch| (watch, id)));
        // A queue that has nothing left to remember is forgotten.
        let is_idle = kept.queue.is_idle();
        let wake = kept.queue.wake().filter(|_| !is_idle);
        self.queue_alarms.set(id, &mut kept.alarm, wake);
        if is_idle {
            self.queues.names.remove(kept.queue.name());
            self.queues.all.remove(&id);
        }
        self.apply_queue(now, id, effects, out);
    }

    fn apply_queue(&mut self, now: Moment, id: QueueId, effects: Vec<Effect>, out: &mut Vec<Action>) {
        let (mut chores, mut dead) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Join(place) => self.on_join_asked(now, place, out),
                Effect::Delete(places) => self.on_delete_asked(now, id, places, out),
                Effect::Read(until) => {
                    if let Some(queue) = self.queues.get(id) {
                        let request = wire::snapshot(queue.prefix(), until);
                        self.call_in_turn(now, Asked::Read(id), Some(request), out);
                    }
                }
                Effect::Check(place, own, ahead) => {
                    let request = wire::check(&own, &ahead);
                    self.call_in_turn(now, Asked::Check(id, place), Some(request), out);
                }
                Effect::Watch(watch, keys) => out.push(Action::Watch(watch, keys)),
                Effect::Unwatch(watch) => {
                    self.queues.watches.remove(&watch);
                    out.push(Action::Unwatch(watch));
                }
                Effect::Stands(place) => self.on_stands(place),
                Effect::Admitted(place, key, revision) => self.on_admitted(now, place, (key, revision), out),
                Effect::Company(place, company) => self.on_company(place, company, out),
                Effect::Refused(place) => self.on_refused(now, place, out),
                Effect::Mismatch(place, other) => self.on_mismatch(now, place, &other, out),
                // After the rest: whoever won in the same breath has won, and then lost.
                Effect::Failed(place, error) => dead.extend(self.on_join_failed(now, place, &error, out)),
                Effect::Vanished(place) => self.on_vanished(now, place, out),
                Effect::Gone(place, departure) => self.on_gone(now, place, departure, out),
                Effect::Unconfirmed(place, error) => self.on_unconfirmed(place, &error),
                Effect::Clean(key, lease, place) => {
                    self.clean(key, lease, place.map(|(place, revision)| (id, place, revision)), &mut chores);
                }
                Effect::Ambiguous(key, lease) => self.on_ambiguous(now, &key, lease),
                Effect::Stranger(key) => self.on_stranger(key, &mut chores),
            }
        }
        for session in dead {
            self.end_session(now, session, LostReason::LeaseRevoked, out);
        }
        self.apply_cleaner(now, chores, out);
    }

    pub(super) fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Action>) {
        let (WatchReply::Created { id, .. } | WatchReply::Events { id, .. } | WatchReply::Cancelled { id, .. }) =
            &reply;
        let Some(queue) = self.queues.watches.get(id).copied() else {
            return self.on_observer_watch(now, *id, reply, out);
        };
        self.hear(&reply);
        if let WatchReply::Cancelled { id, error } = &reply {
            tracing::debug!(%error, "a watch ended; opening another one");
            self.queues.watches.remove(id);
            self.doubt(now);
        }
        self.with_queue(now, queue, Input::Watch(reply), out);
    }

    pub(super) fn tick_queues(&mut self, now: Moment, out: &mut Vec<Action>) {
        for id in self.queue_alarms.due(now) {
            self.with_queue(now, id, Input::Wake, out);
        }
    }

    /// The client closes: the queues end as they stand, the keys end with the leases.
    pub(super) fn close_queues(&mut self, out: &mut Vec<Action>) {
        for kept in std::mem::take(&mut self.queues).all.into_values() {
            out.extend(kept.queue.watches().map(Action::Unwatch));
        }
        self.queue_alarms = super::alarms::Alarms::new();
    }
}

//! Who led each name at which revision, told from etcd's own log, and what our observers and leaders make of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use leasehold::{
    Code, Error,
    hub::{Hold, RpcId},
    observing::Sight,
    queue::wire::{self, Prefix, Proclamation},
    store::{Change, Key, KeyValue, Reply, ReplyBody, Request, WatchEvent},
    terms::Ticket,
};

use crate::{
    rules::{Rule, Verdict},
    world::World,
};

/// Requests with these numbers are those of guards, of which the hub knows nothing.
const OF_GUARDS: u64 = 1 << 60;
/// Tickets from here on are those of observers.
pub(crate) const OBSERVERS: u64 = 1 << 40;

/// A proclamation: the key, its create revision, and the revision of its last write.
type Identity = (Key, i64, i64);

/// The truth about one name.
#[derive(Clone, Debug)]
struct Truth {
    prefix: Prefix,
    /// The contenders, and when each was written last.
    order: BTreeMap<(i64, Key), i64>,
    keys: BTreeMap<Key, i64>,
    /// Who led from which revision on; each differs from the one before.
    story: Vec<(i64, Option<Identity>)>,
}

impl Truth {
    fn new(name: &str, revision: i64, stands: &[KeyValue]) -> Self {
        let mut truth =
            Self { prefix: Prefix::new("", name), order: BTreeMap::new(), keys: BTreeMap::new(), story: Vec::new() };
        for kv in stands.iter().filter(|kv| truth.prefix.is_contender(&kv.key)).collect::<Vec<_>>() {
            truth.order.insert((kv.create_revision, kv.key.clone()), kv.mod_revision);
            truth.keys.insert(kv.key.clone(), kv.create_revision);
        }
        truth.story.push((revision, truth.leader()));
        truth
    }

    fn leader(&self) -> Option<Identity> {
        self.order.first_key_value().map(|((token, key), written)| (key.clone(), *token, *written))
    }

    /// What happened at one revision.
    fn record(&mut self, events: &[WatchEvent]) {
        let Some(revision) = events.first().map(|event| event.revision) else { return };
        for event in events.iter().filter(|event| self.prefix.is_contender(&event.key)) {
            if let Some(token) = self.keys.remove(&event.key) {
                self.order.remove(&(token, event.key.clone()));
            }
            if let Change::Put { create_revision, .. } = event.change {
                self.keys.insert(event.key.clone(), create_revision);
                self.order.insert((create_revision, event.key.clone()), revision);
            }
        }
        let leader = self.leader();
        if self.story.last().is_none_or(|(_, before)| *before != leader) {
            self.story.push((revision, leader));
        }
    }

    /// Who led at `revision`, and how often that had changed before; `None` where that is of a former history.
    fn at(&self, revision: i64) -> Option<(usize, &Option<Identity>)> {
        let place = self.story.partition_point(|(since, _)| *since <= revision).checked_sub(1)?;
        Some((place, &self.story[place].1))
    }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug)]
struct Weather {
    /// Nothing at all.
    is_calm: bool,
    /// Watches miss changes without a word.
    is_deaf: bool,
}

/// One of our observers, and what it was told.
#[derive(Clone, Debug)]
struct Observer {
    name: Arc<str>,
    told: Option<Option<Identity>>,
    /// At which revision of this history.
    at: Option<i64>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elections {
    truths: BTreeMap<Arc<str>, Truth>,
    observers: BTreeMap<(usize, Ticket), Observer>,
    /// So much of the log is recorded.
    recorded: usize,
    /// Proclamations that were sent, and by which hold.
    proclaimed: BTreeMap<u64, Hold>,
}

impl Elections {
    pub(crate) fn new(names: &[Arc<str>]) -> Self {
        Self { truths: names.iter().map(|name| (name.clone(), Truth::new(name, 0, &[]))).collect(), ..Self::default() }
    }

    /// Etcd's log has grown.
    pub(crate) fn record(&mut self, log: &[Vec<WatchEvent>]) {
        for events in &log[self.recorded..] {
            self.truths.values_mut().for_each(|truth| truth.record(events));
        }
        self.recorded = log.len();
    }

    /// Etcd went back in time, and its log begins anew.
    pub(crate) fn restore(&mut self, revision: i64, stands: &[KeyValue]) {
        for (name, truth) in &mut self.truths {
            *truth = Truth::new(name, revision, stands);
        }
        for observer in self.observers.values_mut() {
            observer.at = None;
        }
        self.recorded = 0;
    }

    /// Somebody observes `name` from now on.
    pub(crate) fn observe(&mut self, client: usize, ticket: Ticket, name: Arc<str>) {
        self.observers.insert((client, ticket), Observer { name, told: None, at: None });
    }

    /// And no more.
    pub(crate) fn unobserve(&mut self, client: usize, ticket: Ticket) {
        self.observers.remove(&(client, ticket));
    }

    /// An observer was told something: it must have been so, later than what it was told before, and with nothing in between
    /// unless it was told of a gap. Where watches miss changes without a word, it believes what it is told for a while.
    fn on_observed(&mut self, client: usize, ticket: Ticket, sight: &Sight, net: Weather) -> Verdict {
        let who = format!("client {client} observing as {ticket:?} was told {sight:?}");
        let Some(observer) = self.observers.get_mut(&(client, ticket)) else {
            return Err(Rule::WrongSight.broken(format!("{who} although it has ended")));
        };
        let identity = |said: &Proclamation| (said.key.clone(), said.token, said.revision);
        let told = sight.leader.as_ref().map(identity);
        let truth = &self.truths[&observer.name];
        let Some((place, leader)) = truth.at(sight.at) else {
            return Err(Rule::WrongSight.broken(format!("{who}, which is of a former history")));
        };
        if *leader != told && !net.is_deaf {
            return Err(Rule::WrongSight.broken(format!("{who}, but {leader:?} led")));
        }
        if net.is_calm && sight.is_after_gap {
            return Err(
                Rule::WrongSight.broken(format!("{who}, but nothing went wrong that could have hidden anything"))
            );
        }
        if let Some(before) = observer.at.replace(sight.at) {
            if before > sight.at || (before == sight.at && !net.is_deaf) {
                return Err(Rule::WrongSight.broken(format!("{who}, after what was so at {before}")));
            }
            let missed = truth.at(before).is_some_and(|(last, _)| place != last + 1);
            if missed && !sight.is_after_gap && !net.is_deaf {
                return Err(Rule::UntoldGap.broken(format!("{who}, after what was so at {before}")));
            }
        }
        observer.told = Some(told);
        Ok(())
    }

    /// An observer failed.
    fn on_failed(&mut self, client: usize, ticket: Ticket, error: &Error, is_calm: bool, is_closing: bool) -> Verdict {
        let observer = self.observers.remove(&(client, ticket));
        let is_new = observer.as_ref().is_some_and(|observer| observer.told.is_none());
        let fits = match error.code() {
            Code::Closed => is_closing,
            Code::Unavailable | Code::DeadlineExceeded => is_new && !is_calm,
            _ => false,
        };
        let wrong = || Rule::WrongAnswer.broken(format!("client {client} observing as {ticket:?} failed with {error}"));
        if fits { Ok(()) } else { Err(wrong()) }
    }

    /// Nothing goes wrong any more: whoever observes with one of the clients that are `open` sees what is so.
    pub(crate) fn settle(&self, open: &BTreeSet<usize>) -> Verdict {
        for ((client, ticket), observer) in self.observers.iter().filter(|((client, _), _)| open.contains(client)) {
            let leader = self.truths[&observer.name].leader();
            if observer.told.as_ref() != Some(&leader) {
                return Err(Rule::BlindObserver.broken(format!(
                    "client {client} observing {} as {ticket:?} was told {:?} last, and {leader:?} leads",
                    observer.name, observer.told
                )));
            }
        }
        Ok(())
    }
}

impl World {
    /// A hub told its observer something.
    pub(crate) fn on_observed(&mut self, client: usize, ticket: Ticket, sight: &Sight) {
        self.counts.sights += 1;
        let net = Weather { is_calm: self.plan.is_calm(), is_deaf: self.plan.net.deaf > 0 };
        let verdict = self.elections.on_observed(client, ticket, sight, net);
        self.break_rule(verdict);
    }

    /// A hub told its observer that nothing more comes.
    pub(crate) fn on_observer_failed(&mut self, client: usize, ticket: Ticket, error: &Error) {
        let (is_calm, is_closing) = (self.plan.is_calm(), self.clients[client].closing_since.is_some());
        let verdict = self.elections.on_failed(client, ticket, error, is_calm, is_closing);
        self.break_rule(verdict);
    }

    /// A guard proclaims something, as it does beside the hub: once, whatever becomes of it.
    pub(crate) fn proclaim(&mut self, client: usize, hold: Hold) {
        let number = OF_GUARDS + self.elections.proclaimed.len() as u64;
        let value = format!("proclamation {number}").into_bytes().into();
        let request = wire::proclaim(&hold.keys[0], hold.token, &value, hold.lease);
        self.elections.proclaimed.insert(number, hold);
        self.call(client, RpcId(number), request, Duration::from_secs(5).as_nanos() as u64);
    }

    /// Whether a request is a guard's, and its answer is not for the hub.
    pub(crate) fn is_of_guard(&self, rpc: RpcId) -> bool {
        rpc.0 >= OF_GUARDS
    }

    /// What must be said to a request that reaches etcd now: a proclamation succeeds if its leader's key still stands.
    pub(crate) fn is_due(&self, rpc: RpcId) -> Option<bool> {
        let hold = self.elections.proclaimed.get(&rpc.0)?;
        let stands = |kv: &KeyValue| kv.key == hold.keys[0] && kv.create_revision == hold.token;
        Some(self.cluster.everything().iter().any(stands))
    }

    /// A proclamation took effect, or did not.
    pub(crate) fn judge_proclamation(&mut self, rpc: RpcId, is_due: bool, request: &Request, reply: Option<&Reply>) {
        let Some(Reply { body: ReplyBody::Txn(txn), .. }) = reply else { return };
        self.counts.proclamations += u64::from(txn.succeeded);
        let hold = self.elections.proclaimed[&rpc.0].clone();
        let has_lease = self.cluster.everything().iter().all(|kv| kv.key != hold.keys[0] || kv.lease.is_some());
        if txn.succeeded != is_due || (is_due && !has_lease) {
            self.break_rule(Err(Rule::StaleProclamation.broken(format!(
                "{request:?} of {hold:?} was answered {txn:?}; its key stood: {is_due}, with a lease now: {has_lease}"
            ))));
        }
    }
}

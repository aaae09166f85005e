//! The small cluster that is searched: its states, how each step changes them, and what must hold in each.

mod clients;
mod etcd;
mod steps;
mod wires;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use leasehold::{
    Code, Error,
    clock::Moment,
    hub::{Acquire, Config, Hub, Input, LeaseIds, RpcId, StreamId},
    queue::wire,
    store::{
        Key, KeyValue, Keys, LeaseId, Op, Renewed, Reply, Request, StoreError, Txn, WatchId, WatchReply, memory::Kv,
    },
    terms::{Mode, SessionId, Ticket},
};

pub use self::steps::Step;
use super::{
    fingerprint::{Part, of},
    scenario::{Budget, Scenario},
};
use crate::rules::{Broken, Rule, Verdict};

const NAME: &str = "/a";
const FOREIGN: LeaseId = LeaseId(0xf);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    Unasked,
    Asked,
    Holds { key: Key, token: i64, session: SessionId },
    Lost,
    Releasing,
    Done,
}

/// A client and its callers.
#[derive(Clone, Debug, Hash)]
struct Node {
    hub: Hub,
    tasks: Vec<Task>,
    deadlines: BTreeMap<SessionId, Moment>,
    leases: BTreeSet<LeaseId>,
    is_closing: bool,
    is_closed: bool,
}

/// The store and the watches that it serves.
#[derive(Clone, Debug, Hash)]
struct Etcd {
    kv: Kv,
    watches: BTreeMap<(u8, WatchId), Keys>,
}

#[derive(Clone, Debug, Hash)]
enum Call {
    Sent(Request),
    Answered(Result<Reply, StoreError>),
}

/// What is on its way.
#[derive(Clone, Debug, Default, Hash)]
struct Wires {
    calls: BTreeMap<(u8, RpcId), Call>,
    /// Requests that their client has given up, and that may still take effect.
    late: Vec<Request>,
    watch_up: [VecDeque<(WatchId, Option<Keys>)>; 2],
    watch_down: [VecDeque<WatchReply>; 2],
    /// Watches that each client believes to be open.
    watches: [BTreeSet<WatchId>; 2],
    renew_up: BTreeMap<(u8, StreamId), VecDeque<LeaseId>>,
    renew_down: BTreeMap<(u8, StreamId), VecDeque<Renewed>>,
}

/// The foreign contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Foreign {
    Absent,
    Stands,
    Gone,
}

/// A state of the small cluster.
#[derive(Clone, Debug)]
pub struct State {
    now: Moment,
    nodes: [Part<Node>; 2],
    etcd: Part<Etcd>,
    wires: Part<Wires>,
    foreign: Foreign,
    budget: Budget,
    last_token: i64,
    robbed: BTreeSet<(Key, i64)>,
}

impl State {
    /// Where the search starts.
    pub fn new(scenario: &Scenario) -> Self {
        let node = |client: usize| {
            let config = Config {
                namespace: String::new(),
                ttl: Duration::from_secs(scenario.ttl[client]),
                call_timeout: Duration::from_secs(1),
                request_timeout: Duration::from_secs(10),
                window: 256,
                seed: client as u64 + 1,
                lease_ids: LeaseIds::Seeded,
            };
            let tasks = vec![Task::Unasked; scenario.tasks[client].len()];
            let (deadlines, leases) = (BTreeMap::new(), BTreeSet::new());
            Part::new(Node { hub: Hub::new(config), tasks, deadlines, leases, is_closing: false, is_closed: false })
        };
        let mut state = Self {
            now: Moment::from_nanos(1_000_000_000),
            nodes: [node(0), node(1)],
            etcd: Part::new(Etcd { kv: Kv::new(), watches: BTreeMap::new() }),
            wires: Part::new(Wires::default()),
            foreign: if scenario.has_foreign { Foreign::Absent } else { Foreign::Gone },
            budget: scenario.budget,
            last_token: 0,
            robbed: BTreeSet::new(),
        };
        if scenario.is_warm {
            for client in 0..2 {
                state.warm_up(scenario, client);
            }
        }
        state
    }

    /// Takes and releases a lock of another name, so that the client has its lease.
    fn warm_up(&mut self, scenario: &Scenario, client: u8) {
        let warm = Ticket(1_000);
        let acquire = Acquire { name: Arc::from("/warm"), ..acquire(scenario, client, Mode::Try) };
        let mut told = Vec::new();
        for input in [Input::Acquire(warm, acquire), Input::Release(warm)] {
            let taken = self.feed(client, input, &mut told);
            assert!(taken.is_ok(), "a lock without any contention: {taken:?}");
            while let Some(rpc) = self.wires.calls.keys().next().map(|(_, rpc)| *rpc) {
                let taken = self.apply_call(client, rpc).and_then(|()| self.reply(client, rpc, &mut told));
                assert!(taken.is_ok(), "a lock without any contention: {taken:?}");
            }
        }
    }

    /// The fingerprint of everything that matters.
    pub fn fingerprint(&self) -> u128 {
        of(&(
            self.now,
            [self.nodes[0].fingerprint(), self.nodes[1].fingerprint()],
            self.etcd.fingerprint(),
            self.wires.fingerprint(),
            (self.foreign, self.budget, self.last_token, &self.robbed),
        ))
    }

    /// The state after `step`, or the rule that it breaks. What the clients did meanwhile is `told`.
    pub fn take(&self, scenario: &Scenario, step: Step, told: &mut Vec<String>) -> Result<Self, Broken> {
        let mut after = self.clone();
        after.go(scenario, step, told)?;
        after.judge()?;
        Ok(after)
    }

    /// Plays on without faults, everything at once, until everybody is done; then nothing may be left.
    pub fn finish(&self, scenario: &Scenario) -> Verdict {
        let mut state = self.clone();
        state.budget = Budget::default();
        let mut steps = Vec::new();
        let limit = state.now + Duration::from_secs(150);
        let told = &mut Vec::new();
        for _ in 0..5_000 {
            steps.clear();
            state.steps(&mut steps);
            steps.retain(|step| !matches!(step, Step::Start(..) | Step::Join));
            if let Some(step) = steps.first() {
                state.go(scenario, *step, told)?;
            } else if state.is_done() {
                return Ok(());
            } else {
                state.pass_time(limit)?;
            }
            told.clear();
            state.judge()?;
        }
        Err(Rule::Stuck.broken("the clients never come to rest"))
    }

    fn is_done(&self) -> bool {
        self.nodes.iter().all(Self::is_over) && self.contenders().is_empty()
    }

    fn is_over(node: &Part<Node>) -> bool {
        node.tasks.iter().all(|task| matches!(task, Task::Unasked | Task::Done)) && node.is_closing == node.is_closed
    }

    fn pass_time(&mut self, limit: Moment) -> Verdict {
        let timer = self.next_timer();
        let Some(next) = timer.into_iter().chain(self.etcd.kv.next_expiry().filter(|at| *at > self.now)).min() else {
            return Err(self.stuck());
        };
        if next > limit {
            return Err(self.stuck());
        }
        self.now = next;
        self.expire();
        Ok(())
    }

    /// Nothing goes on any more, but not everything is over.
    fn stuck(&self) -> Broken {
        let tasks: Vec<_> = self.nodes.iter().map(|node| node.tasks.clone()).collect();
        let rule = if self.nodes.iter().all(Self::is_over) { Rule::KeyLeft } else { Rule::Stuck };
        rule.broken(format!("{tasks:?}, keys {:?}", self.contenders()))
    }

    fn next_timer(&self) -> Option<Moment> {
        self.nodes.iter().filter_map(|node| node.hub.wake()).filter(|at| *at > self.now).min()
    }

    fn go(&mut self, scenario: &Scenario, step: Step, told: &mut Vec<String>) -> Verdict {
        match step {
            Step::Root => Ok(()),
            Step::Start(client, ticket) => {
                self.set(client, ticket, Task::Asked);
                let mode = scenario.tasks[client as usize][ticket.0 as usize];
                self.feed(client, Input::Acquire(ticket, acquire(scenario, client, mode)), told)
            }
            Step::Cancel(client, ticket) => {
                self.budget.cancels -= 1;
                self.feed(client, Input::Cancel(ticket, Error::new(Code::Cancelled, "gave up")), told)
            }
            Step::Release(client, ticket) => {
                self.set(client, ticket, Task::Releasing);
                self.feed(client, Input::Release(ticket), told)
            }
            Step::Close(client) => {
                self.budget.closes -= 1;
                self.nodes[client as usize].change(|node| node.is_closing = true);
                self.feed(client, Input::Close, told)
            }
            Step::Apply(client, rpc) => self.apply_call(client, rpc),
            Step::Reply(client, rpc) => self.reply(client, rpc, told),
            Step::Reset(client, rpc) => {
                self.budget.resets -= 1;
                self.break_call(client, rpc, true, told)
            }
            Step::Lose(client, rpc) => {
                self.budget.losses -= 1;
                self.break_call(client, rpc, false, told)
            }
            Step::ApplyLate(n) => {
                let request = self.wires.change(|wires| wires.late.remove(n as usize));
                self.write(|kv, now| drop(kv.call(now, &request)));
                Ok(())
            }
            Step::WatchUp(client) => {
                self.watch_up(client);
                Ok(())
            }
            Step::WatchDown(client) => {
                let reply = self.wires.change(|wires| wires.watch_down[client as usize].pop_front());
                reply.map_or(Ok(()), |reply| self.feed(client, Input::Watch(reply), told))
            }
            Step::Break(client) => {
                self.budget.breaks -= 1;
                self.break_watches(client, told)
            }
            Step::RenewUp(client, stream) => {
                let now = self.now;
                let sent = self.wires.change(|wires| pop(&mut wires.renew_up, (client, stream)));
                if let Some(lease) = sent {
                    let ttl = self.etcd.change(|etcd| etcd.kv.renew(now, lease));
                    let renewed = Renewed { lease, ttl };
                    self.wires.change(|wires| wires.renew_down.entry((client, stream)).or_default().push_back(renewed));
                }
                Ok(())
            }
            Step::RenewDown(client, stream) => {
                let renewed = self.wires.change(|wires| pop(&mut wires.renew_down, (client, stream)));
                renewed.map_or(Ok(()), |renewed| self.feed(client, Input::Renewed(stream, renewed), told))
            }
            Step::Join => {
                self.foreign = Foreign::Stands;
                let key = foreign_key();
                self.write(|kv, now| {
                    let put = Op::Put { key, value: Arc::default(), lease: Some(FOREIGN) };
                    drop(kv.call(now, &Request::LeaseGrant { lease: FOREIGN, ttl: 1_000_000 }));
                    drop(kv.call(now, &Request::Txn(Txn { then: vec![put], ..Txn::default() })));
                });
                Ok(())
            }
            Step::Leave => {
                self.foreign = Foreign::Gone;
                self.write(|kv, now| drop(kv.call(now, &wire::delete_unseen(&foreign_key()))));
                Ok(())
            }
            Step::Delete(n) => {
                self.budget.deletions -= 1;
                let victim = self.contenders().swap_remove(n as usize);
                self.write(|kv, now| drop(kv.call(now, &wire::delete_unseen(&victim.key))));
                self.robbed.insert((victim.key, victim.create_revision));
                Ok(())
            }
            Step::Expire => {
                self.budget.expiries -= 1;
                self.now = self.etcd.kv.next_expiry().unwrap_or(self.now).max(self.now);
                self.expire();
                Ok(())
            }
            Step::Tick => {
                self.budget.ticks -= 1;
                self.now = self.next_timer().unwrap_or(self.now);
                self.expire();
                Ok(())
            }
            Step::Wake(client) => self.feed(client, Input::Wake, told),
        }
    }

    /// What must hold in every state: whoever holds stands first in the store, but for keys that its own client has left.
    fn judge(&self) -> Verdict {
        let mut holds = Vec::new();
        for (client, node) in self.nodes.iter().enumerate() {
            for task in &node.tasks {
                if let Task::Holds { key, token, session } = task
                    && node.deadlines.get(session).is_some_and(|until| *until > self.now)
                    && !node.is_closing
                    && !self.robbed.contains(&(key.clone(), *token))
                {
                    holds.push((client, key, *token));
                }
            }
        }
        if holds.len() > 1 {
            return Err(Rule::TwoOwners.broken(format!("{holds:?}")));
        }
        let Some((client, key, token)) = holds.first() else { return Ok(()) };
        let queue = self.contenders();
        if !queue.iter().any(|kv| kv.key == **key && kv.create_revision == *token) {
            return Err(Rule::KeyGone.broken(format!("client {client} holds by {key:?}, which does not stand")));
        }
        let is_own = |kv: &KeyValue| kv.lease.is_some_and(|lease| self.nodes[*client].leases.contains(&lease));
        match queue.iter().find(|kv| kv.create_revision < *token && !is_own(kv)) {
            Some(ahead) => {
                let how = format!("client {client} holds by {key:?}, but {:?} stands ahead", ahead.key);
                Err(Rule::Overtaken.broken(how))
            }
            None => Ok(()),
        }
    }
}

fn foreign_key() -> Key {
    Key::from(format!("{NAME}/{FOREIGN}"))
}

fn acquire(scenario: &Scenario, client: u8, mode: Mode) -> Acquire {
    Acquire {
        name: Arc::from(NAME),
        mode,
        ttl: Duration::from_secs(scenario.ttl[client as usize]),
        renew: true,
        requeue: true,
        wait: None,
        value: Arc::default(),
    }
}

fn pop<K: Ord + Copy, T>(queues: &mut BTreeMap<K, VecDeque<T>>, key: K) -> Option<T> {
    let queue = queues.get_mut(&key)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&key);
    }
    first
}

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
    Claim, Code, Error,
    clock::Moment,
    hub::{Acquire, Action, Batching, Config, Hub, Input, LeaseIds, RpcId, StreamId, Want},
    queue::wire::{self, claim_of},
    store::{
        Key, KeyValue, Keys, LeaseId, Op, Renewed, Reply, Request, StoreError, Txn, WatchId, WatchReply, memory::Kv,
    },
    terms::{Mode, SessionId, Sharing, Ticket},
};

pub use self::steps::Step;
use super::{
    fingerprint::{Part, of},
    scenario::{Budget, Job, Scenario},
};
use crate::{
    check::{exclude_each_other, goes_beside},
    loans::Loans,
    rules::{Broken, Rule, Verdict},
};

/// Where the foreign contender stands.
const NAME: &str = "/a";
const FOREIGN: LeaseId = LeaseId(0xf);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    Unasked,
    Asked,
    Holds { keys: Vec<Key>, token: i64, session: SessionId },
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
    loans: Loans,
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
    /// The highest token of an owner with each claim of each name, and the sequence of that owner.
    tokens: BTreeMap<(Vec<u8>, Claim), (i64, u64)>,
    sharing: [Sharing; 2],
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
                // As soon as one request is on its way, others wait for it.
                batching: Batching { ahead: 1, ..Batching::USUAL },
                seed: client as u64 + 1,
                lease_ids: LeaseIds::Seeded,
            };
            let tasks = vec![Task::Unasked; scenario.tasks[client].len()];
            Part::new(Node {
                hub: Hub::new(config),
                tasks,
                deadlines: BTreeMap::new(),
                loans: Loans::default(),
                leases: BTreeSet::new(),
                is_closing: false,
                is_closed: false,
            })
        };
        let mut state = Self {
            now: Moment::from_nanos(1_000_000_000),
            nodes: [node(0), node(1)],
            etcd: Part::new(Etcd { kv: Kv::new(), watches: BTreeMap::new() }),
            wires: Part::new(Wires::default()),
            foreign: if scenario.has_foreign { Foreign::Absent } else { Foreign::Gone },
            budget: scenario.budget,
            tokens: BTreeMap::new(),
            sharing: scenario.sharing,
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
        let job = Job { mode: Mode::Try, wants: vec![("/warm", Claim::Exclusive)] };
        let acquire = Acquire { sharing: Sharing::default(), ..acquire(scenario, client, &job) };
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
            (self.foreign, self.budget, &self.tokens, &self.robbed),
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
                let job = &scenario.tasks[client as usize][ticket.0 as usize];
                let (now, acquire) = (self.now, acquire(scenario, client, job));
                let take = |node: &mut Node| node.loans.take(now, ticket, &acquire);
                match self.nodes[client as usize].change(take) {
                    Some(hold) => self.carry_out(client, Action::Acquired(ticket, hold)),
                    None => self.feed(client, Input::Acquire(ticket, acquire), told),
                }
            }
            Step::Cancel(client, ticket) => {
                self.budget.cancels -= 1;
                self.feed(client, Input::Cancel(ticket, Error::new(Code::Cancelled, "gave up")), told)
            }
            Step::Release(client, ticket) => {
                self.set(client, ticket, Task::Releasing);
                let now = self.now;
                if self.nodes[client as usize].change(|node| node.loans.give_back(now, ticket, true)) {
                    self.set(client, ticket, Task::Done);
                    return Ok(());
                }
                let known = self.nodes[client as usize].loans.ticket_of(ticket);
                if let Some(recalled) = self.nodes[client as usize].change(|node| node.loans.recall(known)) {
                    self.feed(client, recalled, told)?;
                }
                self.feed(client, Input::Release(known), told)
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

    /// What must hold in every state: what is held of a name goes together, and whoever holds is admitted by the store, but for keys
    /// that its own client has left.
    fn judge(&self) -> Verdict {
        let mut holds: BTreeMap<&[u8], Vec<(usize, &Key, i64)>> = BTreeMap::new();
        for (client, node) in self.nodes.iter().enumerate() {
            for task in &node.tasks {
                if let Task::Holds { keys, token, session } = task
                    && node.deadlines.get(session).is_some_and(|until| *until > self.now)
                    && !node.is_closing
                    && !keys.iter().any(|key| self.robbed.contains(&(key.clone(), *token)))
                {
                    for key in keys {
                        holds.entry(name_of(key)).or_default().push((client, key, *token));
                    }
                }
            }
        }
        self.judge_loans()?;
        if holds.is_empty() {
            return Ok(());
        }
        let everybody = self.contenders();
        for (name, holds) in holds {
            if (1..holds.len()).any(|n| !goes_beside(claim_of(holds[n].1), holds[..n].iter().map(|it| claim_of(it.1))))
            {
                return Err(Rule::TwoOwners.broken(format!("{holds:?}")));
            }
            let queue: Vec<_> = everybody.iter().filter(|kv| name_of(&kv.key) == name).collect();
            for (client, key, token) in holds {
                if !queue.iter().any(|kv| kv.key == *key && kv.create_revision == token) {
                    return Err(Rule::KeyGone.broken(format!("client {client} holds by {key:?}, which does not stand")));
                }
                let is_own = |kv: &KeyValue| kv.lease.is_some_and(|lease| self.nodes[client].leases.contains(&lease));
                let ahead: Vec<_> =
                    queue.iter().filter(|kv| kv.create_revision < token && !is_own(kv)).map(|kv| &kv.key).collect();
                if !goes_beside(claim_of(key), ahead.iter().map(|key| claim_of(key))) {
                    let how = format!("client {client} holds by {key:?}, but {ahead:?} stand ahead");
                    return Err(Rule::Overtaken.broken(how));
                }
            }
        }
        Ok(())
    }

    /// Tokens grow along whatever excludes each other.
    fn grow(&mut self, key: &Key, token: (i64, u64)) -> Verdict {
        let (name, claim) = (name_of(key), claim_of(key));
        let others = self.tokens.iter().filter(|((of, other), _)| of == name && exclude_each_other(claim, *other));
        if let Some((other, last)) = others.max_by_key(|(_, last)| **last)
            && token <= *last
        {
            return Err(Rule::TokenNotGrown.broken(format!("{key} has token {token:?} after {last:?} of {other:?}")));
        }
        let last = self.tokens.entry((name.to_vec(), claim)).or_default();
        *last = token.max(*last);
        Ok(())
    }
}

/// The name that a key stands below.
fn name_of(key: &Key) -> &[u8] {
    let end = key.as_bytes().iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    &key.as_bytes()[..end]
}

fn foreign_key() -> Key {
    Key::from(format!("{NAME}/{FOREIGN}"))
}

fn acquire(scenario: &Scenario, client: u8, job: &Job) -> Acquire {
    Acquire {
        wants: job.wants.iter().map(|(name, claim)| Want { name: Arc::from(*name), claim: *claim }).collect(),
        mode: job.mode,
        ttl: Duration::from_secs(scenario.ttl[client as usize]),
        renew: true,
        requeue: true,
        wait: None,
        sharing: scenario.sharing[client as usize],
        value: Arc::default(),
        is_candidate: false,
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

//! The world of one run: virtual time, and what happens next.

mod callers;
mod end;
mod processes;
mod store;

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{DefaultHasher, Hasher},
};

use fastrand::Rng;
use leasehold::{clock::Moment, hub::Input, terms::Ticket};

use crate::{
    Counts, Outcome, SEC,
    check::Judge,
    client::{Client, Pent, Step},
    cluster::Cluster,
    elections::{Elections, OBSERVERS},
    foreign::Foreign,
    net::{Parcel, Request},
    plan::{Net, Plan},
    rules::{Broken, Rule, Verdict},
    stays::Stays,
};

/// Something that happens at its time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A client's timer.
    Timer { client: usize },
    /// A caller's next step.
    Step { client: usize, ticket: Ticket, step: Step },
    /// Something reaches a member.
    Arrive(Box<Request>),
    /// Something reaches a client.
    Deliver(Box<Parcel>),
    /// A call runs out of time.
    Timeout { client: usize, rpc: leasehold::hub::RpcId },
    /// The store looks for leases past their time.
    Scan,
    /// A new leader.
    Elected,
    /// A member applies the log so far.
    Apply { member: usize, upto: usize },
    /// A fault of the plan.
    Fault(usize),
    /// A process wakes up.
    Thaw { client: usize },
    /// A client notices that a member is silent.
    Silence { client: usize, member: usize },
    /// All streams of a client break.
    Break { client: usize },
    /// A foreign client looks around.
    Foreign(usize),
    /// The run looks whether it is time for its next part.
    Part,
}

struct Entry(u64, u64, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Callers call, faults strike.
    Play,
    /// Everybody has had the lock; until then, what is left must go.
    Settle(u64),
    /// The clients close.
    Close,
    /// What crashed clients left must go until then.
    Drain(u64),
    /// Over.
    Over,
}

/// The world of one run.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) net: Net,
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    numbers: u64,
    /// The number of what happens now.
    number: u64,
    pub(crate) cluster: Cluster,
    pub(crate) clients: Vec<Client>,
    foreign: Vec<Foreign>,
    /// Until when each link is cut.
    pub(crate) cuts: Vec<Vec<u64>>,
    judge: Judge,
    pub(crate) elections: Elections,
    stays: Stays,
    part: Part,
    /// When the last message arrives that was held up.
    pub(crate) last_late: u64,
    /// When somebody got on: a lock was won, released or given up.
    last_progress: u64,
    violation: Option<Broken>,
    hasher: DefaultHasher,
    trace: Option<Vec<String>>,
    pub(crate) counts: Counts,
    /// Inputs since time last moved on.
    spins: u32,
}

impl World {
    /// A world that goes by `plan`.
    pub fn new(plan: Plan, with_trace: bool) -> Self {
        let clients: Vec<Client> = plan.clients.iter().cloned().map(Client::new).collect();
        let foreign = plan.foreign.iter().cloned().enumerate().map(|(n, plan)| Foreign::new(n, plan)).collect();
        Self {
            net: plan.net,
            rng: plan.rng.clone(),
            now: 0,
            queue: BinaryHeap::new(),
            numbers: 0,
            number: 0,
            cluster: Cluster::new(plan.members),
            cuts: vec![vec![0; plan.members]; clients.len()],
            clients,
            foreign,
            judge: Judge::default(),
            elections: Elections::new(&plan.names),
            stays: Stays::default(),
            part: Part::Play,
            last_late: 0,
            last_progress: 0,
            violation: None,
            hasher: DefaultHasher::new(),
            trace: with_trace.then(Vec::new),
            counts: Counts::default(),
            spins: 0,
            plan,
        }
    }

    /// Plays to the end, or to the first rule that is broken.
    pub fn run(mut self) -> Outcome {
        self.log(|world| format!("{:#?}", world.plan));
        for client in 0..self.clients.len() {
            for (n, task) in self.plan.clients[client].tasks.clone().iter().enumerate() {
                self.at(task.at, Event::Step { client, ticket: Ticket(n as u64 + 1), step: Step::Start });
            }
        }
        for client in 0..self.clients.len() {
            for (n, observer) in self.plan.clients[client].observers.clone().into_iter().enumerate() {
                let ticket = Ticket(OBSERVERS + n as u64);
                self.at(observer.at, Event::Step { client, ticket, step: Step::Observe });
                if let Some(until) = observer.until {
                    self.at(until.max(observer.at + 1), Event::Step { client, ticket, step: Step::Unobserve });
                }
            }
        }
        for n in 0..self.foreign.len() {
            self.at(self.foreign[n].plan.at, Event::Foreign(n));
        }
        for n in 0..self.plan.faults.len() {
            self.at(self.plan.faults[n].0, Event::Fault(n));
        }
        self.at(0, Event::Scan);
        self.at(self.plan.heal_at, Event::Part);
        while self.violation.is_none() && self.part != Part::Over {
            let Some(Reverse(Entry(at, number, event))) = self.queue.pop() else {
                self.break_rule(Err(Rule::Stuck.broken("nothing happens any more")));
                break;
            };
            if at > self.now {
                self.spins = 0;
            }
            (self.now, self.number) = (at, number);
            self.happen(event);
        }
        self.counts.virtual_time = self.now;
        let violation = self.violation.take();
        if let (Some(violation), Some(trace)) = (&violation, &mut self.trace) {
            trace.push(violation.to_string());
        }
        Outcome {
            fingerprint: self.hasher.finish(),
            violation,
            trace: self.trace.unwrap_or_default(),
            counts: self.counts,
        }
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse(Entry(at.max(self.now), self.numbers, event)));
    }

    /// What happens now is held up until then. However often that is so, of what is held up until the same moment the first comes first:
    /// a stream keeps its order.
    pub(crate) fn hold_up(&mut self, until: u64, event: Event) {
        self.queue.push(Reverse(Entry(until, self.number, event)));
    }

    pub(crate) fn log(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>12.6} {}", self.now as f64 / SEC as f64, line(self));
            self.trace.get_or_insert_default().push(line);
        }
    }

    pub(crate) fn break_rule(&mut self, verdict: Verdict) {
        if let (Err(Broken { rule, how }), None) = (verdict, &self.violation) {
            self.violation = Some(rule.broken(format!("at {:.6} s: {how}", self.now as f64 / SEC as f64)));
        }
    }

    /// Whether the time of faults is over.
    pub(crate) fn is_healed(&self) -> bool {
        self.now >= self.plan.heal_at
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Timer { client } => {
                self.clients[client].timer = None;
                let due = self.clients[client].hub.wake().is_some_and(|at| at <= self.clients[client].local(self.now));
                if self.clients[client].is_alive && self.now >= self.clients[client].frozen_until && due {
                    self.feed(client, Input::Wake);
                }
                self.set_timer(client);
            }
            Event::Step { client, ticket, step } => self.reach(client, Pent::Step(ticket, step)),
            Event::Timeout { client, rpc } => self.reach(client, Pent::Timeout(rpc)),
            Event::Arrive(request) => self.arrive(*request),
            Event::Deliver(parcel) => self.deliver(*parcel),
            Event::Scan => self.scan(),
            Event::Elected => {
                self.log(|_| "a new leader extends all leases".to_owned());
                self.cluster.kv.extend_all_leases(Moment::from_nanos(self.now));
            }
            Event::Apply { member, upto } => self.apply(member, upto),
            Event::Fault(n) => {
                let fault = self.plan.faults[n].1.clone();
                self.counts.faults += 1;
                self.log(|_| format!("FAULT {fault:?}"));
                self.strike(fault);
            }
            Event::Thaw { client } => self.thaw(client),
            Event::Silence { client, member } => self.notice_silence(client, member),
            Event::Break { client } => self.break_streams(client, None),
            Event::Foreign(n) => self.foreign_step(n),
            Event::Part => self.next_part(),
        }
    }
}

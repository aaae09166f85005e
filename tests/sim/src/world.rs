//! The world of one run: virtual time, what happens next, the processes, and the end of the run.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{DefaultHasher, Hash, Hasher},
};

use fastrand::Rng;
use leasehold::{
    Code, Error,
    clock::Moment,
    hub::{Action, Input},
    queue::member::{Mode, Ticket},
};

use crate::{
    Counts, MS, Outcome, SEC,
    check::{Judge, Owner, Verdict},
    client::{Client, Pent, Step},
    cluster::Cluster,
    foreign::{Foreign, Stage},
    net::{Parcel, Request},
    plan::{Fault, Net, Plan},
};

/// After the last fault, somebody must get on within this time: longer than any hold of a plan, any TTL and any wait in between.
const PATIENCE: u64 = 120 * SEC;
/// Room for a clock that runs wrong by 1 % and for messages on their way.
const SLACK: u64 = 200 * MS;

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
    pub(crate) cluster: Cluster,
    pub(crate) clients: Vec<Client>,
    foreign: Vec<Foreign>,
    /// Until when each link is cut.
    pub(crate) cuts: Vec<Vec<u64>>,
    judge: Judge,
    part: Part,
    /// When the last message arrives that was held up.
    pub(crate) last_late: u64,
    /// When somebody got on: a lock was won, released or given up.
    last_progress: u64,
    violation: Option<String>,
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
            cluster: Cluster::new(plan.members),
            cuts: vec![vec![0; plan.members]; clients.len()],
            clients,
            foreign,
            judge: Judge::default(),
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
        for n in 0..self.foreign.len() {
            self.at(self.foreign[n].plan.at, Event::Foreign(n));
        }
        for n in 0..self.plan.faults.len() {
            self.at(self.plan.faults[n].0, Event::Fault(n));
        }
        self.at(0, Event::Scan);
        self.at(self.plan.heal_at, Event::Part);
        while self.violation.is_none() && self.part != Part::Over {
            let Some(Reverse(Entry(at, _, event))) = self.queue.pop() else {
                self.break_rule(Err("nothing happens any more".to_owned()));
                break;
            };
            if at > self.now {
                self.spins = 0;
            }
            self.now = at;
            self.happen(event);
        }
        self.counts.virtual_time = self.now;
        let violation = self.violation.take();
        if let (Some(violation), Some(trace)) = (&violation, &mut self.trace) {
            trace.push(violation.clone());
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

    pub(crate) fn log(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>12.6} {}", self.now as f64 / SEC as f64, line(self));
            self.trace.get_or_insert_default().push(line);
        }
    }

    fn break_rule(&mut self, verdict: Verdict) {
        if let (Err(rule), None) = (verdict, &self.violation) {
            self.violation = Some(format!("at {:.6} s: {rule}", self.now as f64 / SEC as f64));
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

    // -- processes --------------------------------------------------------------------------------------------------------

    /// Something reaches a process: now, or when it wakes up.
    pub(crate) fn reach(&mut self, client: usize, what: Pent) {
        let process = &mut self.clients[client];
        if !process.is_alive {
            return;
        }
        if self.now < process.frozen_until {
            process.pent.push(what);
            return;
        }
        match what {
            Pent::Input(input) => self.feed(client, input),
            Pent::Timeout(rpc) => self.time_out(client, rpc),
            Pent::Step(ticket, step) => self.step(client, ticket, step),
        }
    }

    fn thaw(&mut self, client: usize) {
        if self.now < self.clients[client].frozen_until || !self.clients[client].is_alive {
            return;
        }
        self.log(|_| format!("client {client} wakes up"));
        let mut pent = std::mem::take(&mut self.clients[client].pent);
        if self.rng.bool() {
            // Timers and callers may run before the sockets are read.
            pent.sort_by_key(|what| matches!(what, Pent::Input(_)));
        }
        for what in pent {
            self.reach(client, what);
        }
        self.set_timer(client);
    }

    pub(crate) fn feed(&mut self, client: usize, input: Input) {
        self.spins += 1;
        if self.spins > 10_000 {
            return self.break_rule(Err(format!("client {client} spins: {input:?}")));
        }
        self.counts.inputs += 1;
        self.log(|_| format!("client {client} <- {input:?}"));
        (self.now, client).hash(&mut self.hasher);
        input.hash(&mut self.hasher);
        if let Input::Watch(reply) = &input {
            self.note(client, reply);
        }
        let process = &mut self.clients[client];
        let mut actions = Vec::new();
        let local = process.local(self.now);
        process.hub.handle(local, input, &mut actions);
        actions.hash(&mut self.hasher);
        for action in actions {
            self.log(|_| format!("client {client} -> {action:?}"));
            self.carry_out(client, action);
        }
        self.set_timer(client);
    }

    fn set_timer(&mut self, client: usize) {
        let process = &self.clients[client];
        if !process.is_alive || self.now < process.frozen_until {
            return;
        }
        let Some(wake) = process.hub.wake() else { return };
        let mut at = process.true_time(wake).max(self.now);
        while process.local(at) < wake {
            at += 1;
        }
        if process.timer.is_none_or(|timer| at < timer) {
            self.clients[client].timer = Some(at);
            self.at(at, Event::Timer { client });
        }
    }

    /// What the hub has to say to its callers; the rest goes to the network.
    fn carry_out(&mut self, client: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Acquired(ticket, hold) => {
                self.counts.wins += 1;
                let task = self.plan.clients[client].tasks[ticket.0 as usize - 1].clone();
                let queue = self.cluster.contenders(&task.acquire.name);
                let leases = &self.clients[client].leases;
                let is_own = |key: &leasehold::store::Key| {
                    leases.iter().any(|lease| leasehold::queue::wire::is_chosen_by(key, *lease))
                };
                let verdict = self.judge.on_acquired(now, client, ticket, &task.acquire.name, &hold, &queue, is_own);
                self.break_rule(verdict);
                self.answer(client, ticket, None);
                if let Some((after, _)) = task.extend {
                    self.at(now + after.min(task.hold), Event::Step { client, ticket, step: Step::Extend });
                }
                self.at(now + task.hold, Event::Step { client, ticket, step: Step::Release });
            }
            Action::Failed(ticket, error) => {
                self.counts.failures += 1;
                self.answer(client, ticket, Some(&error));
            }
            Action::Released(ticket, result) => self.on_released(client, ticket, &result),
            Action::Extended(ticket, _) => {
                let limit =
                    u64::try_from(self.clients[client].plan.config.request_timeout.as_nanos()).unwrap_or(u64::MAX);
                let was_frozen = self.clients[client].was_frozen;
                match self.task(client, ticket).extending_since.take() {
                    None => {
                        self.break_rule(Err(format!("client {client} {ticket:?}: an extension was answered twice")))
                    }
                    Some(since) if !was_frozen && now - since > limit + limit / 50 + SLACK => {
                        self.break_rule(Err(format!("client {client} {ticket:?}: an extension was answered late")));
                    }
                    Some(_) => {}
                }
            }
            Action::Voided(ticket) => {
                self.judge.on_end(Owner::Ours(client, ticket));
                self.task(client, ticket).is_void = true;
            }
            Action::Lost(ticket, reason) => {
                self.counts.losses += 1;
                let is_calm = self.plan.is_calm();
                let is_private = !self.plan.clients[client].tasks[ticket.0 as usize - 1].acquire.renew;
                let is_closing = self.clients[client].closing_since.is_some();
                let had = self.judge.on_end(Owner::Ours(client, ticket));
                let task = self.task(client, ticket);
                // A release that comes too late finds the hold lost, and both are told.
                let is_odd = task.is_lost || !task.has_won || !(had || task.is_void || task.releasing_since.is_some());
                task.is_lost = true;
                if is_odd {
                    self.break_rule(Err(format!("client {client} {ticket:?}: lost without a hold, or lost twice")));
                }
                if is_calm && !is_private && !is_closing {
                    self.break_rule(Err(format!(
                        "client {client} {ticket:?}: lost ({reason}) although nothing went wrong"
                    )));
                }
            }
            Action::Deadline(session, until) => {
                let until = self.clients[client].true_time(until);
                let verdict = self.judge.on_deadline(now, client, session, until);
                self.break_rule(verdict);
            }
            Action::Health(..) => {}
            Action::Closed => self.on_closed(client),
            other => self.send(client, other),
        }
    }

    fn task(&mut self, client: usize, ticket: Ticket) -> &mut crate::client::Task {
        self.clients[client].tasks.entry(ticket).or_default()
    }

    /// An acquire is answered: exactly once, in time, and with an error that fits.
    fn answer(&mut self, client: usize, ticket: Ticket, error: Option<&Error>) {
        let now = self.now;
        self.last_progress = now;
        let (is_calm, was_frozen) = (self.plan.is_calm(), self.clients[client].was_frozen);
        let is_closing = self.clients[client].closing_since.is_some();
        let acquire = self.plan.clients[client].tasks[ticket.0 as usize - 1].acquire.clone();
        let task = self.task(client, ticket);
        let must_win = task.must_win;
        let was_answered = std::mem::replace(&mut task.is_answered, true);
        task.has_won = error.is_none();
        let (asked_at, cancelled_at) = (task.asked_at.unwrap_or(now), task.cancelled_at);
        let who = format!("client {client} {ticket:?}");
        if was_answered {
            self.break_rule(Err(format!("{who}: an acquire was answered twice")));
        }
        let limits = [acquire.wait.map(|wait| asked_at + wait.as_nanos() as u64), cancelled_at];
        let limit = limits.into_iter().flatten().min();
        if limit.is_some_and(|limit| now > limit + (limit - asked_at) / 50 + SEC + SLACK) && !was_frozen {
            self.break_rule(Err(format!("{who}: an acquire was answered later than asked for")));
        }
        let Some(error) = error else { return };
        let fits = match error.code() {
            Code::NotAcquired if must_win => false,
            Code::NotAcquired => acquire.mode == Mode::Try || acquire.wait.is_some(),
            Code::Cancelled => cancelled_at.is_some(),
            Code::Closed => is_closing,
            Code::Lost => !acquire.requeue && !is_calm,
            Code::Unavailable | Code::DeadlineExceeded => !is_calm,
            _ => false,
        };
        if !fits {
            self.break_rule(Err(format!("{who}: an acquire failed with {error}")));
        }
    }

    /// A client sees its own releases: a try wins if nobody but this client ever wanted the name, and all that did let go of it.
    fn expect_of_try(&mut self, client: usize, ticket: Ticket, acquire: &leasehold::hub::Acquire) {
        let plans = self.plan.clients[client].tasks.clone();
        let is_alone =
            self.plan.is_calm() && self.clients.len() == 1 && self.foreign.is_empty() && acquire.wait.is_none();
        let others = self.clients[client].tasks.iter_mut().filter(|(other, task)| {
            **other != ticket && task.asked_at.is_some() && plans[other.0 as usize - 1].acquire.name == acquire.name
        });
        let mut is_free = true;
        for (_, task) in others {
            is_free &= task.is_over() || task.releasing_since.is_some();
            task.must_win = false;
        }
        self.task(client, ticket).must_win = is_alone && is_free && acquire.mode == Mode::Try;
    }

    fn on_released(&mut self, client: usize, ticket: Ticket, result: &Result<(), Error>) {
        self.last_progress = self.now;
        let (now, is_calm, was_frozen) = (self.now, self.plan.is_calm(), self.clients[client].was_frozen);
        let is_only_robbed = self.plan.is_only_robbed();
        let task = self.task(client, ticket);
        let (was_lost, was_robbed) = (task.is_lost || task.is_void, task.was_robbed);
        task.is_released = true;
        let since = task.releasing_since.take();
        let who = format!("client {client} {ticket:?}");
        match since {
            None => self.break_rule(Err(format!("{who}: a release was answered twice"))),
            Some(since) if !was_frozen && now - since > 5 * SEC + 100 * MS + SLACK => {
                self.break_rule(Err(format!("{who}: a release was answered late")));
            }
            Some(_) => {}
        }
        let fits = match result {
            // With a reply that went missing, nobody knows whose delete it was.
            Ok(()) => !(was_lost || was_robbed && is_only_robbed),
            Err(error) if was_lost => error.code() == Code::NotHeld,
            Err(error) => !is_calm && matches!(error.code(), Code::Lost | Code::Unavailable | Code::DeadlineExceeded),
        };
        if !fits {
            self.break_rule(Err(format!("{who}: a release was answered with {result:?}, lost before: {was_lost}")));
        }
    }

    fn step(&mut self, client: usize, ticket: Ticket, step: Step) {
        if !self.clients[client].is_open() {
            return;
        }
        let (now, plan) = (self.now, self.plan.clients[client].tasks[ticket.0 as usize - 1].clone());
        let task = self.task(client, ticket);
        let input = match step {
            Step::Start => {
                task.asked_at = Some(now);
                self.expect_of_try(client, ticket, &plan.acquire);
                self.counts.acquires += 1;
                if let Some(after) = plan.cancel_after {
                    self.at(now + after, Event::Step { client, ticket, step: Step::Cancel });
                }
                Input::Acquire(ticket, plan.acquire)
            }
            // Whoever won has a guard to release; whoever failed has nothing to give up.
            Step::Cancel if task.is_answered => return,
            Step::Cancel => {
                task.cancelled_at = Some(now);
                Input::Cancel(ticket, Error::new(Code::Cancelled, "the caller gave up"))
            }
            Step::Extend if task.releasing_since.is_some() || task.is_released => return,
            Step::Extend => {
                task.extending_since = Some(now);
                Input::Extend(ticket, plan.extend.map(|(_, span)| span).unwrap_or_default())
            }
            Step::Release => {
                task.releasing_since = Some(now);
                let owner = Owner::Ours(client, ticket);
                self.task(client, ticket).was_robbed = self.judge.was_robbed(owner);
                self.judge.on_end(owner);
                Input::Release(ticket)
            }
        };
        self.feed(client, input);
    }

    /// Kills a process: its holds end, what it sent is on its way.
    pub(crate) fn crash(&mut self, client: usize) {
        self.clients[client].is_alive = false;
        self.judge.on_client_gone(client);
        self.cluster.watches.retain(|watch| watch.client != client);
    }

    pub(crate) fn close(&mut self, client: usize) {
        if !self.clients[client].is_open() || self.now < self.clients[client].frozen_until {
            return;
        }
        self.clients[client].closing_since = Some(self.now);
        self.feed(client, Input::Close);
    }

    fn on_closed(&mut self, client: usize) {
        let process = &mut self.clients[client];
        let twice = std::mem::replace(&mut process.is_closed, true);
        let since = process.closing_since.unwrap_or_default();
        let limit = process.plan.config.request_timeout.as_nanos() as u64;
        let is_late = !process.was_frozen && self.now - since > limit + limit / 50 + SLACK;
        let unanswered = process.tasks.iter().find(|(_, task)| {
            (task.asked_at.is_some() && !task.is_answered)
                || task.releasing_since.is_some()
                || task.extending_since.is_some()
        });
        if twice || is_late {
            self.break_rule(Err(format!("client {client} closed twice ({twice}) or late ({is_late})")));
        } else if let Some((ticket, task)) = unanswered {
            let rule = format!("client {client} closed without an answer to {ticket:?}: {task:?}");
            self.break_rule(Err(rule));
        } else if matches!(self.part, Part::Close) {
            let leases = &self.clients[client].leases;
            let left = self.cluster.kv.leases().find(|lease| leases.contains(lease));
            if let Some(lease) = left {
                self.break_rule(Err(format!("client {client} closed and left the lease {lease}")));
            }
        }
    }

    // -- the store --------------------------------------------------------------------------------------------------------

    fn scan(&mut self) {
        if self.now < self.cluster.stalled_until {
            return self.at(self.cluster.stalled_until + 1, Event::Scan);
        }
        let ended = self.cluster.kv.expire(Moment::from_nanos(self.now));
        if !ended.is_empty() {
            self.log(|_| format!("etcd ends {ended:?}"));
        }
        self.after_write();
        // etcd looks every 500 ms. Here it may look at the very moment a lease runs out, which is the worst for holders.
        let mut next = self.now + self.rng.u64(1..=500 * MS);
        if let Some(expiry) = self.cluster.kv.next_expiry()
            && self.rng.bool()
        {
            next = next.min(expiry.as_nanos().max(self.now + 1));
        }
        self.at(next, Event::Scan);
    }

    /// To be called after everything that may have written to the store: tells the members.
    pub(crate) fn after_write(&mut self) {
        if !self.cluster.record() {
            return;
        }
        let upto = self.cluster.log.len();
        for n in 0..self.cluster.members.len() {
            let member = &self.cluster.members[n];
            let lag = if self.now < member.lag_until { self.rng.u64(0..=member.lag) } else { self.rng.u64(0..=2 * MS) };
            let at = member.last_apply.max(self.now + lag);
            self.cluster.members[n].last_apply = at;
            self.at(at, Event::Apply { member: n, upto });
        }
        for n in 0..self.foreign.len() {
            // Most of a crowd is not there yet, waits, or is gone.
            if let Stage::Holding(token) = self.foreign[n].stage {
                let foreign = &self.foreign[n];
                let queue = self.cluster.contenders(&foreign.plan.name);
                if !queue.iter().any(|kv| kv.key == foreign.key() && kv.create_revision == token) {
                    self.judge.on_end(Owner::Foreign(n));
                }
            }
        }
    }

    /// An administrator deletes a key or revokes a lease: whoever holds by it has been robbed.
    pub(crate) fn administrate(&mut self, fault: &Fault) {
        let all = self.cluster.everything();
        let now = Moment::from_nanos(self.now);
        let Some(victim) = self.rng.choice(&all).cloned() else { return };
        let request = match (fault, victim.lease) {
            (Fault::RevokeLease, Some(lease)) => leasehold::store::Request::LeaseRevoke { lease },
            _ => leasehold::queue::wire::delete_unseen(&victim.key),
        };
        for kv in &all {
            if kv.key == victim.key
                || (matches!(fault, Fault::RevokeLease) && kv.lease.is_some() && kv.lease == victim.lease)
            {
                self.judge.on_given_away(&kv.key, kv.create_revision);
                self.log(|_| format!("an administrator takes away {:?}", kv.key));
            }
        }
        // A key that is gone already is as good.
        let _ = self.cluster.kv.call(now, &request);
        self.after_write();
    }

    fn foreign_step(&mut self, n: usize) {
        if self.now < self.cluster.stalled_until {
            return self.at(self.cluster.stalled_until, Event::Foreign(n));
        }
        let now = Moment::from_nanos(self.now);
        let foreign = &mut self.foreign[n];
        let renewing = foreign.plan.ttl.is_some() && self.now >= foreign.renew_at;
        if renewing && !matches!(foreign.stage, Stage::Absent | Stage::Over) {
            foreign.renew_at = self.now + foreign.plan.ttl.unwrap_or(2) as u64 * SEC / 3;
            self.cluster.kv.renew(now, foreign.lease);
        }
        let key = foreign.key();
        let mut pause = self.rng.u64(MS..100 * MS);
        match foreign.stage {
            Stage::Absent => {
                foreign.stage = foreign.join(&mut self.cluster.kv, now).map_or(Stage::Over, Stage::Waiting);
                foreign.renew_at = self.now + SEC / 2;
                self.log(|_| format!("foreign client {n} joins with {key:?}"));
            }
            Stage::Waiting(token) => {
                let queue = self.cluster.contenders(&foreign.plan.name);
                if !queue.iter().any(|kv| kv.key == key) {
                    foreign.stage = Stage::Over;
                } else if queue[0].key == key {
                    foreign.stage = Stage::Holding(token);
                    foreign.until = self.now + foreign.plan.hold;
                    let name = foreign.plan.name.clone();
                    self.counts.foreign += 1;
                    self.log(|_| format!("foreign client {n} holds with {token}"));
                    let verdict = self.judge.on_foreign(self.now, n, &name, key, token);
                    self.break_rule(verdict);
                } else {
                    // Whoever stands far behind need not look often.
                    pause *= queue.iter().position(|kv| kv.key == key).map_or(1, |place| place.min(20) as u64);
                }
            }
            Stage::Holding(_) if self.now >= foreign.until => {
                foreign.stage = Stage::Over;
                self.last_progress = self.now;
                self.judge.on_end(Owner::Foreign(n));
                // One without a lease is freed by hand, however it ends.
                if !(foreign.plan.dies && foreign.plan.ttl.is_some()) {
                    foreign.leave(&mut self.cluster.kv, now);
                }
                self.log(|_| format!("foreign client {n} is over"));
            }
            Stage::Holding(_) | Stage::Over => {}
        }
        self.after_write();
        if self.foreign[n].stage != Stage::Over {
            self.at(self.now + pause, Event::Foreign(n));
        }
    }

    // -- the end ----------------------------------------------------------------------------------------------------------

    fn next_part(&mut self) {
        let now = self.now;
        let is_over =
            self.clients.iter().all(Client::is_over) && self.foreign.iter().all(|foreign| foreign.stage == Stage::Over);
        match self.part {
            Part::Play if is_over => {
                // A request that arrives late leaves a ghost; renewals are followed by sweeps, after a request that was doubled
                // without anybody's knowledge only once a minute. Leases of the dead need their time, too.
                let grace = if self.plan.net.twice > 0 { 90 * SEC } else { 20 * SEC };
                let dead =
                    self.plan.foreign.iter().filter(|foreign| foreign.dies).filter_map(|foreign| foreign.ttl).max();
                let grace = grace.max((dead.unwrap_or(0) as u64 + 5) * SEC);
                self.part = Part::Settle(now.max(self.last_late) + grace);
            }
            Part::Play if now > self.plan.heal_at.max(self.last_late).max(self.last_progress) + PATIENCE => {
                let stuck = self.clients.iter().enumerate().find(|(_, client)| !client.is_over());
                let rule = match stuck {
                    Some((n, client)) => {
                        let task = client.tasks.iter().find(|(_, task)| !task.is_over());
                        format!("client {n} waits for ever: {task:?}, closing since {:?}", client.closing_since)
                    }
                    None => "a foreign client waits for ever".to_owned(),
                };
                let keys = self.cluster.everything();
                self.break_rule(Err(format!("{rule}; the keys are {keys:?}")));
            }
            Part::Settle(until) if now >= until => {
                if let Some(kv) = self.cluster.everything().first() {
                    self.break_rule(Err(format!("the key {:?} stands although nobody uses it", kv.key)));
                }
                for client in 0..self.clients.len() {
                    let process = &self.clients[client];
                    let ttls = process.plan.tasks.iter().filter(|task| task.acquire.renew).map(|task| task.acquire.ttl);
                    let shared = ttls.collect::<std::collections::BTreeSet<_>>().len();
                    let left: Vec<_> =
                        self.cluster.kv.leases().filter(|lease| process.leases.contains(lease)).collect();
                    if process.is_open() && left.len() > shared {
                        self.break_rule(Err(format!(
                            "client {client} has the leases {left:?}, but only {shared} sessions"
                        )));
                    }
                }
                self.part = Part::Close;
                for client in 0..self.clients.len() {
                    self.close(client);
                }
            }
            Part::Close if self.clients.iter().all(|client| !client.is_alive || client.is_closed) => {
                self.part = Part::Drain(now + 2 * SEC);
            }
            Part::Close
                if self.clients.iter().any(|client| client.closing_since.is_some_and(|at| now > at + 15 * SEC)) =>
            {
                self.break_rule(Err("a client never closed".to_owned()));
            }
            Part::Drain(until) if now >= until => {
                let left: Vec<_> = self.cluster.kv.leases().collect();
                if !left.is_empty() {
                    self.break_rule(Err(format!("the leases {left:?} are left")));
                }
                self.part = Part::Over;
            }
            Part::Play | Part::Settle(_) | Part::Close | Part::Drain(_) | Part::Over => {}
        }
        if self.part == Part::Play
            && self.is_healed()
            && now > self.plan.heal_at + 10 * SEC
            && let Some(rule) = self.judge.untold(now)
        {
            self.break_rule(Err(rule));
        }
        self.at(now + 500 * MS, Event::Part);
    }
}

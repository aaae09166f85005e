//! The small cluster that is searched: its states, the steps between them, and what must hold in each.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use leasehold::{
    Code, Error,
    clock::Moment,
    hub::{Acquire, Action, Config, Hub, Input, RpcId, StreamId},
    queue::{
        member::{Mode, SessionId, Ticket},
        wire,
    },
    store::{
        ErrorKind, Key, KeyValue, Keys, LeaseId, Op, Range, Renewed, Reply, Request, StoreError, Txn, WatchId,
        WatchReply,
        memory::{Kv, matching},
    },
};

use super::fingerprint::{Part, of};

const NAME: &str = "/a";
const FOREIGN: LeaseId = LeaseId(0xf);

/// How often each thing may go wrong on one way through the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A call breaks; its request takes effect before, later, or much later.
    pub resets: u8,
    /// A call breaks; its request is lost.
    pub losses: u8,
    /// A caller gives up.
    pub cancels: u8,
    /// An administrator deletes a key.
    pub deletions: u8,
    /// Time jumps to where the next lease ends, and it ends.
    pub expiries: u8,
    /// Time passes until the next timer of a client.
    pub ticks: u8,
    /// A watch stream breaks.
    pub breaks: u8,
    /// A client closes.
    pub closes: u8,
}

/// What is searched.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the callers of each client ask for, in this order.
    pub tasks: [Vec<Mode>; 2],
    /// TTL of each client, in seconds.
    pub ttl: [u64; 2],
    /// Whether the clients have their leases already.
    pub is_warm: bool,
    /// Whether a foreign contender takes part.
    pub has_foreign: bool,
    /// What may go wrong.
    pub budget: Budget,
}

/// The scenarios of the project: two or three contenders of ours, a foreign one, and each fault alone and with another.
pub fn scenarios() -> Vec<Scenario> {
    use Mode::{Try, Wait};
    let none = Budget::default();
    let scenario = |name, tasks: [&[Mode]; 2], has_foreign, budget| Scenario {
        name,
        tasks: tasks.map(<[Mode]>::to_vec),
        ttl: [60, 60],
        is_warm: true,
        has_foreign,
        budget,
    };
    vec![
        Scenario { is_warm: false, ..scenario("cold start", [&[Wait], &[Wait]], false, none) },
        scenario("two and one and a foreign one", [&[Wait, Wait], &[Wait]], true, none),
        scenario("a cancel", [&[Wait, Wait], &[Wait]], false, Budget { cancels: 1, ..none }),
        scenario("a cancel, a foreign one", [&[Wait], &[Wait]], true, Budget { cancels: 1, ..none }),
        scenario("a late request", [&[Wait], &[Wait]], false, Budget { resets: 1, ticks: 1, ..none }),
        scenario("a late request, a cancel", [&[Wait], &[]], true, Budget { resets: 1, cancels: 1, ticks: 1, ..none }),
        scenario("two late requests", [&[Wait], &[]], true, Budget { resets: 2, ticks: 2, ..none }),
        scenario("a lost request", [&[Wait], &[Wait]], true, Budget { losses: 1, ticks: 1, ..none }),
        scenario("a deleted key", [&[Wait], &[Wait]], true, Budget { deletions: 1, ..none }),
        scenario("a broken watch", [&[Wait, Wait], &[]], true, Budget { breaks: 1, ticks: 1, ..none }),
        Scenario { ttl: [2, 60], ..scenario("an expiry", [&[Wait], &[Wait]], true, Budget { expiries: 1, ..none }) },
        Scenario {
            ttl: [2, 60],
            ..scenario(
                "an expiry, a late request",
                [&[Wait], &[Wait]],
                false,
                Budget { expiries: 1, resets: 1, ..none },
            )
        },
        scenario("tries", [&[Wait, Try], &[Try]], true, none),
        scenario("a close", [&[Wait, Wait], &[Wait]], false, Budget { closes: 1, ..none }),
    ]
}

/// A step from one state to the next. The first number is the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The start.
    Root,
    /// A caller asks for the lock.
    Start(u8, Ticket),
    /// A caller gives up.
    Cancel(u8, Ticket),
    /// A caller releases.
    Release(u8, Ticket),
    /// The client closes.
    Close(u8),
    /// A request takes effect.
    Apply(u8, RpcId),
    /// A reply arrives.
    Reply(u8, RpcId),
    /// A call breaks; its request is still on its way, or its reply is lost.
    Reset(u8, RpcId),
    /// A call breaks and its request is lost.
    Lose(u8, RpcId),
    /// A request takes effect whose client has given it up.
    ApplyLate(u8),
    /// The next message of the watch stream reaches etcd.
    WatchUp(u8),
    /// The next message of the watch stream reaches the client.
    WatchDown(u8),
    /// The watch stream breaks.
    Break(u8),
    /// The next renewal of a stream reaches etcd.
    RenewUp(u8, StreamId),
    /// The next acknowledgement of a stream reaches the client.
    RenewDown(u8, StreamId),
    /// The foreign contender joins.
    Join,
    /// The foreign contender leaves.
    Leave,
    /// An administrator deletes the first, second … contender's key.
    Delete(u8),
    /// Time jumps to the end of the next lease.
    Expire,
    /// Time passes until the next timer.
    Tick,
    /// A client looks at its timers.
    Wake(u8),
}

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

type Taken = Result<(), String>;

impl State {
    /// Where the search starts.
    pub fn new(scenario: &Scenario) -> Self {
        let node = |client: usize| {
            let config = Config {
                namespace: String::new(),
                ttl: Duration::from_secs(scenario.ttl[client]),
                call_timeout: Duration::from_secs(1),
                request_timeout: Duration::from_secs(10),
                seed: client as u64 + 1,
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

    /// Every step that can come next.
    pub fn steps(&self, scenario: &Scenario, out: &mut Vec<Step>) {
        let budget = self.budget;
        for ((client, rpc), call) in &self.wires.calls {
            match call {
                Call::Sent(_) => {
                    out.push(Step::Apply(*client, *rpc));
                    if budget.losses > 0 {
                        out.push(Step::Lose(*client, *rpc));
                    }
                }
                Call::Answered(_) => out.push(Step::Reply(*client, *rpc)),
            }
            if budget.resets > 0 {
                out.push(Step::Reset(*client, *rpc));
            }
        }
        out.extend((0..self.wires.late.len()).map(|n| Step::ApplyLate(n as u8)));
        out.extend(self.wires.renew_up.keys().map(|(client, stream)| Step::RenewUp(*client, *stream)));
        out.extend(self.wires.renew_down.keys().map(|(client, stream)| Step::RenewDown(*client, *stream)));
        for client in 0..2_u8 {
            let node = &self.nodes[client as usize];
            if !self.wires.watch_up[client as usize].is_empty() {
                out.push(Step::WatchUp(client));
            }
            if !self.wires.watch_down[client as usize].is_empty() {
                out.push(Step::WatchDown(client));
            }
            if budget.breaks > 0 && !self.wires.watches[client as usize].is_empty() {
                out.push(Step::Break(client));
            }
            if node.hub.wake().is_some_and(|at| at <= self.now) {
                out.push(Step::Wake(client));
            }
            if node.is_closing {
                continue;
            }
            if budget.closes > 0 {
                out.push(Step::Close(client));
            }
            let mut has_unasked = false;
            for (n, task) in node.tasks.iter().enumerate() {
                let ticket = Ticket(n as u64);
                match task {
                    // The callers of one client are alike: they come in their order.
                    Task::Unasked if !has_unasked => {
                        has_unasked = true;
                        out.push(Step::Start(client, ticket));
                    }
                    Task::Asked if budget.cancels > 0 => out.push(Step::Cancel(client, ticket)),
                    Task::Holds { .. } => out.push(Step::Release(client, ticket)),
                    _ => {}
                }
            }
        }
        match self.foreign {
            Foreign::Absent => out.push(Step::Join),
            Foreign::Stands => out.push(Step::Leave),
            Foreign::Gone => {}
        }
        if budget.deletions > 0 {
            out.extend((0..self.contenders().len()).map(|n| Step::Delete(n as u8)));
        }
        if budget.expiries > 0 && self.etcd.kv.next_expiry().is_some() {
            out.push(Step::Expire);
        }
        if budget.ticks > 0 && self.next_timer().is_some() {
            out.push(Step::Tick);
        }
        let _ = scenario;
    }

    /// Whether nothing is left to happen but faults and time.
    pub fn is_quiet(&self, steps: &[Step]) -> bool {
        steps.iter().all(|step| {
            matches!(
                step,
                Step::Break(_) | Step::Delete(_) | Step::Expire | Step::Tick | Step::Cancel(..) | Step::Close(_)
            )
        })
    }

    /// The state after `step`, or the rule that it breaks.
    pub fn take(&self, scenario: &Scenario, step: Step) -> Result<Self, String> {
        let mut after = self.clone();
        after.go(scenario, step, &mut Vec::new())?;
        after.judge()?;
        Ok(after)
    }

    /// Like [`State::take`], and tells what the clients did.
    pub fn take_telling(&self, scenario: &Scenario, step: Step, told: &mut Vec<String>) -> Result<Self, String> {
        let mut after = self.clone();
        after.go(scenario, step, told)?;
        after.judge()?;
        Ok(after)
    }

    /// Plays on without faults, everything at once, until everybody is done; then nothing may be left.
    pub fn finish(&self, scenario: &Scenario) -> Taken {
        let mut state = self.clone();
        state.budget = Budget::default();
        let mut steps = Vec::new();
        let limit = state.now + Duration::from_secs(150);
        let told = &mut Vec::new();
        for _ in 0..5_000 {
            steps.clear();
            state.steps(scenario, &mut steps);
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
        Err("the clients never come to rest".to_owned())
    }

    fn is_done(&self) -> bool {
        let is_over = |node: &Part<Node>| {
            node.tasks.iter().all(|task| matches!(task, Task::Unasked | Task::Done))
                && node.is_closing == node.is_closed
        };
        self.nodes.iter().all(is_over) && self.contenders().is_empty()
    }

    fn pass_time(&mut self, limit: Moment) -> Taken {
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

    fn stuck(&self) -> String {
        let tasks: Vec<_> = self.nodes.iter().map(|node| node.tasks.clone()).collect();
        format!("somebody waits for ever, or something is left: {tasks:?}, keys {:?}", self.contenders())
    }

    fn next_timer(&self) -> Option<Moment> {
        self.nodes.iter().filter_map(|node| node.hub.wake()).filter(|at| *at > self.now).min()
    }

    fn go(&mut self, scenario: &Scenario, step: Step, told: &mut Vec<String>) -> Taken {
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

    // -- the clients ------------------------------------------------------------------------------------------------------

    fn set(&mut self, client: u8, ticket: Ticket, task: Task) {
        self.nodes[client as usize].change(|node| {
            if let Some(found) = node.tasks.get_mut(ticket.0 as usize) {
                *found = task;
            }
        });
    }

    fn feed(&mut self, client: u8, input: Input, told: &mut Vec<String>) -> Taken {
        let now = self.now;
        if let Input::Watch(WatchReply::Cancelled { id, .. }) = &input {
            self.wires.change(|wires| wires.watches[client as usize].remove(id));
        }
        told.push(format!("client {client} <- {input:?}"));
        let mut actions = Vec::new();
        self.nodes[client as usize].change(|node| node.hub.handle(now, input, &mut actions));
        for action in actions {
            told.push(format!("-> {action:?}"));
            self.carry_out(client, action)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, client: u8, action: Action) -> Taken {
        let who = |ticket: Ticket| format!("client {client} {ticket:?}");
        match action {
            Action::Call(rpc, request, _) => {
                if let Request::LeaseGrant { lease, .. } = request {
                    self.nodes[client as usize].change(|node| node.leases.insert(lease));
                }
                self.wires.change(|wires| wires.calls.insert((client, rpc), Call::Sent(request)));
            }
            Action::OpenRenewals(..) | Action::Health(..) => {}
            Action::Renew(stream, lease) => {
                self.wires.change(|wires| wires.renew_up.entry((client, stream)).or_default().push_back(lease));
            }
            Action::CloseRenewals(stream) => self.wires.change(|wires| {
                wires.renew_up.remove(&(client, stream));
                wires.renew_down.remove(&(client, stream));
            }),
            Action::Watch(id, keys) => self.wires.change(|wires| {
                wires.watch_up[client as usize].push_back((id, Some(keys)));
                wires.watches[client as usize].insert(id);
            }),
            Action::Unwatch(id) => self.wires.change(|wires| {
                wires.watch_up[client as usize].push_back((id, None));
                wires.watches[client as usize].remove(&id);
            }),
            Action::Acquired(ticket, hold) => {
                if ticket.0 >= 1_000 {
                    return Ok(());
                }
                let node = &self.nodes[client as usize];
                if node.tasks[ticket.0 as usize] != Task::Asked {
                    return Err(format!("{}: an acquire was answered twice", who(ticket)));
                }
                if node.deadlines.get(&hold.session).is_none_or(|until| *until <= self.now) {
                    return Err(format!("{} was handed a lock past its deadline", who(ticket)));
                }
                if !self.robbed.contains(&(hold.key.clone(), hold.token)) {
                    if hold.token <= self.last_token {
                        return Err(format!("{} has token {} after {}", who(ticket), hold.token, self.last_token));
                    }
                    self.last_token = hold.token;
                }
                self.set(client, ticket, Task::Holds { key: hold.key, token: hold.token, session: hold.session });
            }
            Action::Failed(ticket, error) => {
                if self.nodes[client as usize].tasks[ticket.0 as usize] != Task::Asked {
                    return Err(format!("{}: an acquire was answered twice, with {error}", who(ticket)));
                }
                self.set(client, ticket, Task::Done);
            }
            Action::Released(ticket, _) => {
                if ticket.0 >= 1_000 {
                    return Ok(());
                }
                if self.nodes[client as usize].tasks[ticket.0 as usize] != Task::Releasing {
                    return Err(format!("{}: a release was answered twice", who(ticket)));
                }
                self.set(client, ticket, Task::Done);
            }
            Action::Voided(ticket) => self.set(client, ticket, Task::Lost),
            Action::Lost(ticket, _) => match self.nodes[client as usize].tasks[ticket.0 as usize] {
                Task::Holds { .. } | Task::Lost => self.set(client, ticket, Task::Done),
                Task::Releasing => {}
                _ => return Err(format!("{}: lost without a hold", who(ticket))),
            },
            Action::Deadline(session, until) => {
                let now = self.now;
                let before = self.nodes[client as usize].change(|node| node.deadlines.insert(session, until));
                if before.is_some_and(|before| until < before || (before < now && until > before)) {
                    return Err(format!("client {client}: a deadline moved from {before:?} to {until:?} at {now:?}"));
                }
            }
            Action::Extended(..) => {}
            Action::Closed => self.nodes[client as usize].change(|node| node.is_closed = true),
        }
        Ok(())
    }

    // -- the network ------------------------------------------------------------------------------------------------------

    fn apply_call(&mut self, client: u8, rpc: RpcId) -> Taken {
        let Some(Call::Sent(request)) = self.wires.calls.get(&(client, rpc)).cloned() else { return Ok(()) };
        let mut result = None;
        self.write(|kv, now| result = Some(kv.call(now, &request)));
        self.wires.change(|wires| {
            if let Some(result) = result {
                wires.calls.insert((client, rpc), Call::Answered(result));
            }
        });
        Ok(())
    }

    fn reply(&mut self, client: u8, rpc: RpcId, told: &mut Vec<String>) -> Taken {
        match self.wires.change(|wires| wires.calls.remove(&(client, rpc))) {
            Some(Call::Answered(result)) => self.feed(client, Input::Reply(rpc, result), told),
            _ => Ok(()),
        }
    }

    fn break_call(&mut self, client: u8, rpc: RpcId, goes_on: bool, told: &mut Vec<String>) -> Taken {
        self.wires.change(|wires| {
            if let Some(Call::Sent(request)) = wires.calls.remove(&(client, rpc))
                && goes_on
            {
                wires.late.push(request);
            }
        });
        let error = StoreError::ambiguous(ErrorKind::Unavailable, "reset");
        self.feed(client, Input::Reply(rpc, Err(error)), told)
    }

    fn watch_up(&mut self, client: u8) {
        let Some((id, keys)) = self.wires.change(|wires| wires.watch_up[client as usize].pop_front()) else { return };
        match keys {
            Some(keys) => {
                let revision = self.etcd.change(|etcd| {
                    etcd.watches.insert((client, id), keys);
                    etcd.kv.revision()
                });
                let created = WatchReply::Created { id, revision };
                self.wires.change(|wires| wires.watch_down[client as usize].push_back(created));
            }
            None => {
                self.etcd.change(|etcd| etcd.watches.remove(&(client, id)));
            }
        }
    }

    fn break_watches(&mut self, client: u8, told: &mut Vec<String>) -> Taken {
        self.etcd.change(|etcd| etcd.watches.retain(|(of, _), _| *of != client));
        let ids = self.wires.change(|wires| {
            wires.watch_up[client as usize].clear();
            wires.watch_down[client as usize].clear();
            std::mem::take(&mut wires.watches[client as usize])
        });
        for id in ids {
            let error = StoreError::refused(ErrorKind::Unavailable, "broken");
            self.feed(client, Input::Watch(WatchReply::Cancelled { id, error }), told)?;
        }
        Ok(())
    }

    // -- the store --------------------------------------------------------------------------------------------------------

    /// Changes the store and tells the watches.
    fn write(&mut self, act: impl FnOnce(&mut Kv, Moment)) {
        let now = self.now;
        let told: Vec<(u8, WatchReply)> = self.etcd.change(|etcd| {
            act(&mut etcd.kv, now);
            let changes = etcd.kv.take_changes();
            let tell = |(client, id): &(u8, WatchId), keys: &Keys| {
                let events = matching(keys, &changes);
                (!events.is_empty()).then_some((*client, WatchReply::Events { id: *id, events }))
            };
            etcd.watches.iter().filter_map(|(id, keys)| tell(id, keys)).collect()
        });
        if !told.is_empty() {
            self.wires.change(|wires| {
                for (client, reply) in told {
                    wires.watch_down[client as usize].push_back(reply);
                }
            });
        }
    }

    fn expire(&mut self) {
        if self.etcd.kv.next_expiry().is_some_and(|at| at <= self.now) {
            self.write(|kv, now| drop(kv.expire(now)));
        }
    }

    fn contenders(&self) -> Vec<KeyValue> {
        let keys = Keys::prefix(Key::from(format!("{NAME}/")));
        let mut found = self.etcd.kv.range(&Range { keys, limit: 0, keys_only: false }).kvs;
        found.sort_by_key(|kv| kv.create_revision);
        found
    }

    /// What must hold in every state: whoever holds stands first in the store, but for keys that its own client has left.
    fn judge(&self) -> Taken {
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
            return Err(format!("two owners: {holds:?}"));
        }
        let Some((client, key, token)) = holds.first() else { return Ok(()) };
        let queue = self.contenders();
        if !queue.iter().any(|kv| kv.key == **key && kv.create_revision == *token) {
            return Err(format!("client {client} holds by {key:?}, which does not stand"));
        }
        let is_own = |kv: &KeyValue| kv.lease.is_some_and(|lease| self.nodes[*client].leases.contains(&lease));
        match queue.iter().find(|kv| kv.create_revision < *token && !is_own(kv)) {
            Some(ahead) => Err(format!("client {client} holds by {key:?}, but {:?} stands ahead", ahead.key)),
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

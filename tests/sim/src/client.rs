//! A client's process: the hub, what stands for its runtime, and what its callers wait for.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::{
    clock::Moment,
    hub::{Hold, Hub, Input, RpcId, StreamId},
    store::{LeaseId, WatchId},
    terms::Ticket,
};

use crate::{loans::Loans, plan::ClientPlan};

/// One direction each of a stream: messages do not overtake one another.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    /// The member at its other end.
    pub member: usize,
    /// When what was last sent up arrives.
    pub up: u64,
    /// When what was last sent down arrives.
    pub down: u64,
}

/// The watch stream.
#[derive(Clone, Debug)]
pub struct WatchPipe {
    /// Tells it from the streams before it.
    pub number: u32,
    /// Its ends.
    pub pipe: Pipe,
    /// The watches on it, and since when each has been asked for; `None` once it stands.
    pub asked: BTreeMap<WatchId, Option<u64>>,
    /// Nothing comes on it any more, although it stands.
    pub is_silent: bool,
    /// The client ends it; its last words are on their way.
    pub is_ending: bool,
}

/// What one caller waits for, and since when.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// When the acquire was asked for.
    pub asked_at: Option<u64>,
    /// When it was given up.
    pub cancelled_at: Option<u64>,
    /// A try that must win: nobody else wants the name, only releases of this client may still be on their way.
    pub must_win: bool,
    /// Whether an administrator took the key away before the release was asked for.
    pub was_robbed: bool,
    /// Whether it was answered.
    pub is_answered: bool,
    /// Whether it won.
    pub has_won: bool,
    /// What it won.
    pub hold: Option<Hold>,
    /// Whether the hold was called void.
    pub is_void: bool,
    /// Whether the hold was called lost.
    pub is_lost: bool,
    /// When the release was asked for, until it is answered.
    pub releasing_since: Option<u64>,
    /// Whether the release was answered.
    pub is_released: bool,
    /// When an extension was asked for, until it is answered.
    pub extending_since: Option<u64>,
}

impl Task {
    /// Whether nothing is expected any more, neither from the caller nor from the client.
    pub fn is_over(&self) -> bool {
        self.is_answered && (!self.has_won || self.is_released) && self.extending_since.is_none()
    }
}

/// What a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Ask for the lock.
    Start,
    /// Give up waiting.
    Cancel,
    /// Ask for more time.
    Extend,
    /// Proclaim something.
    Proclaim,
    /// Release.
    Release,
    /// Begin to observe.
    Observe,
    /// Observe no more.
    Unobserve,
}

/// Something that reached the process while it stood still.
#[derive(Clone, Debug)]
pub enum Pent {
    /// For the hub.
    Input(Input),
    /// A call ran out of time.
    Timeout(RpcId),
    /// For a caller.
    Step(Ticket, Step),
}

/// A client's process.
#[derive(Clone, Debug)]
pub struct Client {
    /// What was planned for it.
    pub plan: ClientPlan,
    /// The state machines.
    pub hub: Hub,
    /// Places that linger.
    pub loans: Loans,
    /// It has not crashed.
    pub is_alive: bool,
    /// It stands still until then.
    pub frozen_until: u64,
    /// Whether it ever stood still: its answers may be late then.
    pub was_frozen: bool,
    /// When etcd last answered it anything well.
    pub heard_at: u64,
    /// What came in meanwhile.
    pub pent: Vec<Pent>,
    /// The member that it thinks best.
    pub prefers: usize,
    /// Calls without an answer, and the member they went to.
    pub calls: BTreeMap<RpcId, usize>,
    /// Streams of renewals.
    pub renewals: BTreeMap<StreamId, Pipe>,
    /// The watch stream.
    pub watches: Option<WatchPipe>,
    /// Watch streams so far.
    pub streams: u32,
    /// The earliest timer that is set.
    pub timer: Option<u64>,
    /// Its callers.
    pub tasks: BTreeMap<Ticket, Task>,
    /// Leases that it asked for.
    pub leases: BTreeSet<LeaseId>,
    /// When it was asked to close.
    pub closing_since: Option<u64>,
    /// Whether it has closed.
    pub is_closed: bool,
}

impl Client {
    /// A client that has done nothing yet.
    pub fn new(plan: ClientPlan) -> Self {
        let tickets = (1..=plan.tasks.len()).map(|n| (Ticket(n as u64), Task::default()));
        Self {
            hub: Hub::new(plan.config.clone()),
            loans: Loans::default(),
            is_alive: true,
            frozen_until: 0,
            was_frozen: false,
            heard_at: 0,
            pent: Vec::new(),
            prefers: 0,
            calls: BTreeMap::new(),
            renewals: BTreeMap::new(),
            watches: None,
            streams: 0,
            timer: None,
            tasks: tickets.collect(),
            leases: BTreeSet::new(),
            closing_since: None,
            is_closed: false,
            plan,
        }
    }

    /// What its clock shows at the true time `now`.
    pub fn local(&self, now: u64) -> Moment {
        let drift = i128::from(now) * i128::from(self.plan.drift_ppm) / 1_000_000;
        Moment::from_nanos(self.plan.offset.saturating_add_signed(drift as i64) + now)
    }

    /// The true time at which its clock shows `local`, to the nanosecond.
    pub fn true_time(&self, local: Moment) -> u64 {
        let since_start = i128::from(local.as_nanos()) - i128::from(self.plan.offset);
        let now = since_start * 1_000_000 / (1_000_000 + i128::from(self.plan.drift_ppm));
        u64::try_from(now.max(0)).unwrap_or(u64::MAX)
    }

    /// Whether it runs and may still be asked for something.
    pub fn is_open(&self) -> bool {
        self.is_alive && self.closing_since.is_none()
    }

    /// Whether nothing is expected from it or its callers any more.
    pub fn is_over(&self) -> bool {
        !self.is_alive || self.is_closed || (self.closing_since.is_none() && self.tasks.values().all(Task::is_over))
    }
}

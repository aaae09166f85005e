//! All state machines of one client, wired together: sessions, queues and the cleaner. Sans I/O.
//!
//! A [`Hub`] is a client without its runtime: [`Input`]s come in with the time they came at, [`Action`]s go out. The engine
//! runs one under tokio; a simulator runs several in virtual time; a search clones and hashes them.

mod alarms;
mod batches;
mod callers;
mod calls;
mod chores;
mod company;
mod history;
mod observers;
mod queues;
mod sessions;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    alarms::Alarms,
    callers::{Caller, tenure::Tenures},
    calls::{Asked, Calls},
    company::Deletes,
    history::History,
    observers::Observers,
    queues::Queues,
    sessions::Sessions,
};
use crate::{
    backoff::mix,
    cleaner::Cleaner,
    clock::Moment,
    error::{Error, LostReason},
    observing::Sight,
    queue::admission::Claim,
    session::Health,
    store::{Key, Keys, LeaseId, Renewed, Reply, Request, StoreError, WatchId, WatchReply},
    terms::{Mode, PlaceId, QueueId, SessionId, Sharing, Ticket},
};

pub use self::batches::Batching;

/// How many requests about keys a client has on their way at a time, unless told otherwise.
pub const WINDOW: usize = 256;

/// A unary call on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RpcId(pub u64);

/// A stream of renewals of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The session.
    pub session: SessionId,
    /// The number of the stream within it.
    pub number: u32,
}

/// What a client needs to know from the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Put before every name, verbatim.
    pub namespace: String,
    /// TTL of the session that locks share unless they ask for another, whole seconds.
    pub ttl: Duration,
    /// How long one unary call may take.
    pub call_timeout: Duration,
    /// How long an operation as a whole may take that does not wait for a lock.
    pub request_timeout: Duration,
    /// How many requests about keys are on their way at a time; see [`WINDOW`].
    pub window: usize,
    /// When some of them share a transaction.
    pub batching: Batching,
    /// Where jitter comes from. Different in every client.
    pub seed: u64,
    /// Where the ids of leases come from.
    pub lease_ids: LeaseIds,
}

/// Where the ids of leases come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseIds {
    /// Each from the operating system's randomness: whoever saw one cannot guess the next, and take it first.
    System,
    /// From the seed: for simulation and search, which repeat themselves.
    Seeded,
}

/// What an acquire wants of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// The name, valid.
    pub name: Arc<str>,
    /// What it claims of it.
    pub claim: Claim,
}

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The names, all different and at least one, and what is claimed of each. All of them or none.
    pub wants: Vec<Want>,
    /// Wait or try.
    pub mode: Mode,
    /// TTL in whole seconds.
    pub ttl: Duration,
    /// Renew while held; otherwise the hold ends at its TTL.
    pub renew: bool,
    /// Queue again when the session is lost while waiting; otherwise fail.
    pub requeue: bool,
    /// How long to wait for the lock; `None` is for ever.
    pub wait: Option<Duration>,
    /// How it shares its place with others of this client; only with `renew`, as a hold without has a lease of its own.
    pub sharing: Sharing,
    /// The value of the contender's key.
    pub value: Arc<[u8]>,
    /// Whether that is what it proclaims, once it leads: then its place is not as good as any other of this client.
    pub is_candidate: bool,
}

/// What happens to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Somebody wants a lock. Answered by [`Action::Acquired`] or [`Action::Failed`], exactly once.
    Acquire(Ticket, Acquire),
    /// The caller of an acquire gave up. If it won already, nothing happens: the guard is the caller's to release.
    Cancel(Ticket, Error),
    /// The holder releases. Answered by [`Action::Released`], exactly once.
    Release(Ticket),
    /// A guarded write of this hold may still take effect: its place is given up when it is released, so that etcd refuses the write.
    Unsettled(Ticket),
    /// What became of a place that was lent: the answer to [`Action::Recall`]. May also come unasked, before its holder releases or
    /// extends.
    Recalled(Ticket, Returned),
    /// The holder asks for at least so much time. Answered by [`Action::Extended`], exactly once.
    Extend(Ticket, Duration),
    /// Somebody wants to know who leads the election of this name. Answered by [`Action::Observed`] at once and for each change, until
    /// [`Action::ObserverFailed`] or [`Input::Unobserve`].
    Observe(Ticket, Arc<str>),
    /// Nobody wants to know it any more.
    Unobserve(Ticket),
    /// Release everything. Answered by [`Action::Closed`], exactly once; nothing but replies may come in after it.
    Close,
    /// The reply to [`Action::Call`].
    Reply(RpcId, Result<Reply, StoreError>),
    /// An acknowledgement on a stream of renewals.
    Renewed(StreamId, Renewed),
    /// A stream of renewals ended, although nobody closed it; why, where that is known.
    RenewalsEnded(StreamId, Option<StoreError>),
    /// Something came on the watch stream. When the whole stream breaks, each of its watches is told as cancelled.
    Watch(WatchReply),
    /// Time passed.
    Wake,
}

/// A lock that was won.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The contenders' keys, in the order in which the names were asked for.
    pub keys: Vec<Key>,
    /// Their create revision: the fencing token.
    pub token: i64,
    /// The session that keeps it.
    pub session: SessionId,
    /// Its lease.
    pub lease: LeaseId,
    /// How many owners the key had before in this client.
    pub sequence: u64,
}

/// A place that lingers. Until it is recalled, acquires of its client that share places may take it and give it back without a word
/// to the hub, as often as they like; those that do so go by the ticket of the hold that it came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loan {
    /// The name of its lock.
    pub name: Arc<str>,
    /// The TTL that its session was asked for.
    pub ttl: Duration,
    /// The hold that it came from. Each that is made of it has the next number of its sequence.
    pub hold: Hold,
    /// How it was shared.
    pub sharing: Sharing,
    /// How much time its session must have left for a hold to begin.
    pub slack: Duration,
    /// Until when it may be taken, unless it is taken and given back meanwhile: then it stays as long as that hold asked for.
    pub until: Moment,
}

/// A loan that is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Returned {
    /// The number of the last hold that was made of it.
    pub sequence: u64,
    /// How that shares its place.
    pub sharing: Sharing,
    /// Until when the place stays; `None` if it is held: then the hold of its ticket goes on.
    pub until: Option<Moment>,
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send this and report the reply.
    Call(RpcId, Request, Duration),
    /// Open a stream of renewals; the number counts the hedges of one renewal.
    OpenRenewals(StreamId, u32),
    /// Send a renewal of the lease on that stream.
    Renew(StreamId, LeaseId),
    /// Close that stream.
    CloseRenewals(StreamId),
    /// Watch these keys from now on.
    Watch(WatchId, Keys),
    /// Stop that watch.
    Unwatch(WatchId),
    /// This hold, which was released, may be taken again until it is recalled.
    Lend(Ticket, Loan),
    /// The loan of this ticket is over; answered by [`Input::Recalled`] before anything else comes in.
    Recall(Ticket),
    /// The acquire won.
    Acquired(Ticket, Hold),
    /// The acquire failed.
    Failed(Ticket, Error),
    /// The release is done.
    Released(Ticket, Result<(), Error>),
    /// The extension is done.
    Extended(Ticket, Result<(), Error>),
    /// The observer sees something new.
    Observed(Ticket, Sight),
    /// The observer sees nothing any more.
    ObserverFailed(Ticket, Error),
    /// This hold is over, the reason follows with [`Action::Lost`]. Of a loan, whoever holds it, if anybody does.
    Voided(Ticket),
    /// This hold is over, for this reason. Of a loan, whoever holds it, if anybody does.
    Lost(Ticket, LostReason),
    /// Holds of this session can be trusted until then.
    Deadline(SessionId, Moment),
    /// The health of the session of that TTL changed.
    Health(SessionId, Duration, Health),
    /// A session is over, and nothing is said about it any more.
    SessionOver(SessionId),
    /// Everything is released, as far as etcd could be reached.
    Closed,
}

/// How far closing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Open,
    /// Leases are being revoked; answered by then at the latest.
    Closing(Moment),
    Closed,
}

/// A client without its runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hub {
    config: Config,
    /// How many random numbers were drawn.
    drawn: u64,
    stage: Stage,
    sessions: Sessions,
    session_alarms: Alarms<SessionId>,
    /// In boxes, as the nodes of the tree have room for more than they hold.
    callers: BTreeMap<Ticket, Box<Caller>>,
    caller_alarms: Alarms<Ticket>,
    tenures: Tenures,
    /// Whose each place is.
    owners: BTreeMap<PlaceId, Ticket>,
    queues: Queues,
    queue_alarms: Alarms<QueueId>,
    observers: Observers,
    observer_alarms: Alarms<Ticket>,
    cleaner: Cleaner,
    calls: Calls,
    /// Deletes that are put together, while this lasts.
    together: Option<Vec<Deletes>>,
    history: History,
    /// Whether it was told that a lock class which queues by itself stands in a queue.
    has_met_copies: bool,
    next_id: u64,
}

impl Hub {
    /// A client that has done nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            drawn: 0,
            stage: Stage::Open,
            sessions: Sessions::default(),
            session_alarms: Alarms::new(),
            callers: BTreeMap::new(),
            caller_alarms: Alarms::new(),
            tenures: Tenures::default(),
            owners: BTreeMap::new(),
            queues: Queues::default(),
            queue_alarms: Alarms::new(),
            observers: Observers::default(),
            observer_alarms: Alarms::new(),
            cleaner: Cleaner::default(),
            calls: Calls::new(config.window),
            together: None,
            history: History::default(),
            has_met_copies: false,
            next_id: 0,
            config,
        }
    }

    /// Takes in what happened at `now` and says what to do about it.
    pub fn handle(&mut self, now: Moment, input: Input, out: &mut Vec<Action>) {
        self.take_in(now, input, out);
        self.settle(now, out);
    }

    /// As [`Hub::handle`], but what could share a transaction with what comes next may wait until [`Hub::settle`].
    pub fn take_in(&mut self, now: Moment, input: Input, out: &mut Vec<Action>) {
        // What time has changed comes first: a session past its deadline is over, whatever the input says.
        self.tick_sessions(now, out);
        match input {
            Input::Acquire(ticket, acquire) => self.acquire(now, ticket, acquire, out),
            Input::Cancel(ticket, error) => self.cancel(now, ticket, error, out),
            Input::Release(ticket) => self.release(now, ticket, out),
            Input::Unsettled(ticket) => self.note_unsettled(ticket),
            Input::Recalled(ticket, returned) => self.on_recalled(now, ticket, returned, out),
            Input::Extend(ticket, span) => self.extend(now, ticket, span, out),
            Input::Observe(ticket, name) => self.observe(now, ticket, name, out),
            Input::Unobserve(ticket) => self.unobserve(ticket, out),
            Input::Close => self.close(now, out),
            Input::Reply(rpc, result) => self.on_reply(now, rpc, result, out),
            Input::Renewed(stream, renewed) => self.on_renewed(now, stream, renewed.ttl, out),
            Input::RenewalsEnded(stream, error) => self.on_renewals_ended(now, stream, error, out),
            Input::Watch(reply) => self.on_watch(now, reply, out),
            Input::Wake => {}
        }
        // After everything else that happens at `now`.
        self.tick_callers(now, out);
        self.tick_queues(now, out);
        self.tick_observers(now, out);
        self.tick_cleaner(now, out);
        self.tick_history(now, out);
        self.finish_closing(now, out);
    }

    /// Nothing more comes in at `now`: sends what has waited for that.
    pub fn settle(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.send_gathered(now, out);
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        let closing = match self.stage {
            Stage::Closing(by) => Some(by),
            Stage::Open | Stage::Closed => None,
        };
        let machines = [self.session_alarms.next(), self.caller_alarms.next(), self.queue_alarms.next()];
        machines
            .into_iter()
            .chain([self.observer_alarms.next()])
            .flatten()
            .chain(self.cleaner.wake())
            .chain(self.history.wake())
            .chain(self.calls.batches.wake())
            .chain(closing)
            .min()
    }

    fn close(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Closing(now + self.config.request_timeout);
        self.close_callers(out);
        self.close_queues(out);
        self.close_observers(out);
        self.calls.close();
        self.close_sessions(now, out);
    }

    fn finish_closing(&mut self, now: Moment, out: &mut Vec<Action>) {
        if let Stage::Closing(by) = self.stage
            && (now >= by || (self.cleaner.is_idle() && self.calls.are_idle()))
        {
            self.stage = Stage::Closed;
            self.calls.forget_all();
            out.push(Action::Closed);
        }
    }

    /// The TTL of a session that locks share.
    pub fn shared_ttl(&self, session: SessionId) -> Option<Duration> {
        self.sessions.shared_ttl(session)
    }

    /// The leases of all sessions.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.sessions.leases()
    }

    /// An id for a lease: positive, and never 0, which means "choose one" to etcd.
    fn lease_id(&mut self) -> LeaseId {
        let random = match self.config.lease_ids {
            // A system that gives none any more, which has never been seen, leaves the seed that it gave.
            LeaseIds::System => getrandom::u64().unwrap_or_else(|_| self.random()),
            LeaseIds::Seeded => self.random(),
        };
        LeaseId(i64::try_from(random >> 1).unwrap_or(i64::MAX).max(1))
    }

    /// The next number of a series that is different in every client (SplitMix64, Steele, Lea and Flood, 2014).
    fn random(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.config.seed.wrapping_add(self.drawn))
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

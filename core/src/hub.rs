//! All state machines of one client, wired together: sessions, queues and the cleaner. Sans I/O.
//!
//! A [`Hub`] is a client without its runtime: [`Input`]s come in with the time they came at, [`Action`]s go out. The engine
//! runs one under tokio; a simulator runs several in virtual time; a search clones and hashes them.

mod alarms;
mod callers;
mod calls;
mod chores;
mod history;
mod queues;
mod sessions;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    alarms::Alarms,
    callers::Caller,
    calls::{Asked, Calls},
    history::History,
    queues::Queues,
    sessions::Sessions,
};
use crate::{
    backoff::mix,
    cleaner::Cleaner,
    clock::Moment,
    error::{Error, LostReason},
    session::Health,
    store::{Key, Keys, LeaseId, Renewed, Reply, Request, StoreError, WatchId, WatchReply},
    terms::{Mode, PlaceId, QueueId, SessionId, Ticket},
};

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

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The name, valid.
    pub name: Arc<str>,
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
    /// The value of the contender's key.
    pub value: Arc<[u8]>,
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
    /// The holder asks for at least so much time. Answered by [`Action::Extended`], exactly once.
    Extend(Ticket, Duration),
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
    /// The contender's key.
    pub key: Key,
    /// Its create revision: the fencing token.
    pub token: i64,
    /// The session that keeps it.
    pub session: SessionId,
    /// Its lease.
    pub lease: LeaseId,
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
    /// The acquire won.
    Acquired(Ticket, Hold),
    /// The acquire failed.
    Failed(Ticket, Error),
    /// The release is done.
    Released(Ticket, Result<(), Error>),
    /// The extension is done.
    Extended(Ticket, Result<(), Error>),
    /// This hold is over, the reason follows with [`Action::Lost`].
    Voided(Ticket),
    /// This hold is over, for this reason.
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
    callers: BTreeMap<Ticket, Caller>,
    caller_alarms: Alarms<Ticket>,
    /// Whose each place is.
    owners: BTreeMap<PlaceId, Ticket>,
    queues: Queues,
    queue_alarms: Alarms<QueueId>,
    cleaner: Cleaner,
    calls: Calls,
    history: History,
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
            owners: BTreeMap::new(),
            queues: Queues::default(),
            queue_alarms: Alarms::new(),
            cleaner: Cleaner::default(),
            calls: Calls::new(config.window),
            history: History::default(),
            next_id: 0,
            config,
        }
    }

    /// Takes in what happened at `now` and says what to do about it.
    pub fn handle(&mut self, now: Moment, input: Input, out: &mut Vec<Action>) {
        // What time has changed comes first: a session past its deadline is over, whatever the input says.
        self.tick_sessions(now, out);
        match input {
            Input::Acquire(ticket, acquire) => self.acquire(now, ticket, acquire, out),
            Input::Cancel(ticket, error) => self.cancel(now, ticket, error, out),
            Input::Release(ticket) => self.release(now, ticket, out),
            Input::Extend(ticket, span) => self.extend(now, ticket, span, out),
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
        self.tick_cleaner(now, out);
        self.tick_history(now, out);
        self.finish_closing(now, out);
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        let closing = match self.stage {
            Stage::Closing(by) => Some(by),
            Stage::Open | Stage::Closed => None,
        };
        let alarms = [self.session_alarms.next(), self.caller_alarms.next(), self.queue_alarms.next()];
        alarms.into_iter().flatten().chain(self.cleaner.wake()).chain(self.history.wake()).chain(closing).min()
    }

    fn close(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Closing(now + self.config.request_timeout);
        self.close_callers(out);
        self.close_queues(out);
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

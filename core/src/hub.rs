//! All state machines of one client, wired together: sessions, queues and the cleaner. Sans I/O.
//!
//! A [`Hub`] is a client without its runtime: [`Input`]s come in with the time they came at, [`Action`]s go out. The engine
//! runs one under tokio; a simulator runs several in virtual time; a search clones and hashes them.

mod queues;
mod sessions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    cleaner::{self, Cleaner},
    clock::Moment,
    error::{Error, LostReason},
    queue::{
        Call, Queue,
        member::{Mode, SessionId, Ticket},
    },
    session::{Health, Session},
    store::{Key, Keys, LeaseId, Renewed, Reply, Request, StoreError, WatchId, WatchReply},
};

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
    /// Where lease ids and jitter come from. Different in every client.
    pub seed: u64,
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
    /// A stream of renewals ended, although nobody closed it.
    RenewalsEnded(StreamId),
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
    /// A session's health changed.
    Health(SessionId, Health),
    /// Everything is released, as far as etcd could be reached.
    Closed,
}

/// What a reply is the answer to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Grant(SessionId, LeaseId),
    Queue(QueueId, Call),
    Chore(cleaner::Chore),
    Sweep(SessionId, LeaseId),
    /// Whether the lease of a hold still lives whose key vanished.
    Autopsy(Ticket, SessionId),
}

/// A queue within its hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct QueueId(u64);

/// A session and who uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tenancy {
    session: Session,
    /// Whether it serves one acquire only: a hold without renewal.
    is_private: bool,
    /// Acquires that wait for its lease.
    unkeyed: BTreeSet<Ticket>,
    /// Holds and acquires that use it.
    users: usize,
    /// Keys about which a request may still be on its way: never to be chosen again.
    tainted: BTreeSet<Key>,
    /// Queues whose head waits for a renewal of this session.
    short_of_time: BTreeSet<QueueId>,
    /// Extensions that wait for a renewal sent at that time or later, and when they are given up.
    extensions: Vec<(Ticket, Moment, Moment)>,
}

/// An acquire or a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    queue: QueueId,
    /// The session that its key belongs to, or that it waits for.
    session: SessionId,
    ttl: Duration,
    renew: bool,
    is_held: bool,
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
    random: u64,
    stage: Stage,
    sessions: BTreeMap<SessionId, Tenancy>,
    /// The session of each TTL that locks share.
    shared: BTreeMap<Duration, SessionId>,
    queues: BTreeMap<QueueId, Queue>,
    names: BTreeMap<Arc<str>, QueueId>,
    users: BTreeMap<Ticket, User>,
    watches: BTreeMap<WatchId, QueueId>,
    cleaner: Cleaner,
    asked: BTreeMap<RpcId, Asked>,
    next_id: u64,
    wakes: BTreeSet<(Moment, QueueId)>,
    wake_of: BTreeMap<QueueId, Moment>,
}

impl Hub {
    /// A client that has done nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            random: config.seed,
            config,
            stage: Stage::Open,
            sessions: BTreeMap::new(),
            shared: BTreeMap::new(),
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            users: BTreeMap::new(),
            watches: BTreeMap::new(),
            cleaner: Cleaner::default(),
            asked: BTreeMap::new(),
            next_id: 0,
            wakes: BTreeSet::new(),
            wake_of: BTreeMap::new(),
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
            Input::Renewed(stream, renewed) => {
                self.with_session(now, stream.session, out, |session, effects| {
                    session.on_renewed(now, stream.number, renewed.ttl, effects);
                });
                self.after_renewal(now, stream.session, out);
            }
            Input::RenewalsEnded(stream) => self.with_session(now, stream.session, out, |session, effects| {
                session.on_broken(now, stream.number, effects);
            }),
            Input::Watch(reply) => self.on_watch(now, reply, out),
            Input::Wake => {}
        }
        self.tick(now, out);
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        let sessions = self.sessions.values().filter_map(|tenancy| {
            let extensions = tenancy.extensions.iter().map(|(_, _, give_up)| *give_up);
            tenancy.session.wake().into_iter().chain(extensions).min()
        });
        let closing = match self.stage {
            Stage::Closing(by) => Some(by),
            Stage::Open | Stage::Closed => None,
        };
        let queues = self.wakes.first().map(|(at, _)| *at);
        sessions.chain(queues).chain(self.cleaner.wake()).chain(closing).min()
    }

    /// The leases of all sessions.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.sessions.values().map(|tenancy| tenancy.session.lease())
    }

    /// The next number of a series that is different in every client (SplitMix64, Steele, Lea and Flood, 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

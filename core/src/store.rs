//! The few etcd calls that leasehold uses, as plain values: what the state machines ask for and what a store answers.
//!
//! Two stores answer them: a real etcd cluster ([`etcd`]) and a faithful one inside the process ([`memory`]).
//! Requests and replies are data, so that a simulator can drop, delay and repeat them and a search can count them.

pub mod etcd;
pub mod memory;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use crate::text;

/// A key in etcd: any bytes, compared byte by byte. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text: what is not UTF-8 in it is replaced. For messages there is [`Display`](fmt::Display).
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// The first key after all keys that start with this one (etcd's `range_end` of a prefix).
    ///
    /// A key of nothing but `0xff` has no such key; etcd spells that "to the end" as a single zero byte.
    pub fn prefix_end(&self) -> Self {
        let mut end = self.0.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                return Self(end.into());
            }
        }
        Self([0].into())
    }
}

impl<T: AsRef<[u8]>> From<T> for Key {
    fn from(bytes: T) -> Self {
        Self(bytes.as_ref().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Key {
    /// The beginning of the key, escaped: anybody may have written it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::excerpt(&String::from_utf8_lossy(&self.0)))
    }
}

/// The id of a lease in etcd. Chosen by us, positive; written in lower-case hexadecimal, as etcd's own tools do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A range of keys: one key, or all keys from `key` up to `end` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keys {
    /// The first key.
    pub key: Key,
    /// The first key that is not part of the range; `None` means `key` alone.
    pub end: Option<Key>,
}

impl Keys {
    /// Exactly this key.
    pub fn one(key: Key) -> Self {
        Self { key, end: None }
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: Key) -> Self {
        let end = Some(prefix.prefix_end());
        Self { key: prefix, end }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        match &self.end {
            None => *key == self.key,
            Some(end) => *key >= self.key && (end.as_bytes() == [0] || key < end),
        }
    }
}

/// A condition of a transaction. On a range it holds only if it holds for every key that exists there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreateRevisionIs {
    /// The key or keys looked at.
    pub keys: Keys,
    /// The create revision that each must have; 0 means that none exists.
    pub revision: i64,
}

/// One operation inside a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Writes `value` under `key`, attached to `lease` where there is one.
    Put {
        /// The key to write.
        key: Key,
        /// Its new value.
        value: Arc<[u8]>,
        /// The lease whose end deletes the key.
        lease: Option<LeaseId>,
    },
    /// Deletes the keys that exist in the range.
    Delete(Keys),
    /// Reads keys, in the order of the keys.
    Range(Range),
    /// A transaction inside the transaction.
    Txn(Txn),
}

/// Which keys of a range are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pick {
    /// All of them, in the order of the keys.
    #[default]
    All,
    /// Those that were created at this revision or before. Positive.
    CreatedUntil(i64),
    /// All of them, the last one created first.
    Newest,
}

/// A read. Always linearizable. Whatever is picked but all, etcd reads and counts the whole range, whatever the limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// What to read.
    pub keys: Keys,
    /// At most so many keys; 0 means all. The reply's `count` counts all of them in any case.
    pub limit: i64,
    /// Leaves the values out of the reply, and the leases: etcd 3.7 does not tell those either then.
    pub keys_only: bool,
    /// Which of them.
    pub pick: Pick,
}

/// If every condition holds, `then`, otherwise `otherwise`; all of it at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Txn {
    /// The conditions; an empty list holds.
    pub conditions: Vec<CreateRevisionIs>,
    /// Done if all conditions hold.
    pub then: Vec<Op>,
    /// Done if one does not.
    pub otherwise: Vec<Op>,
}

/// A unary call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A transaction.
    Txn(Txn),
    /// A read of its own.
    Range(Range),
    /// Grants a lease with an id that we chose; `ttl` in whole seconds.
    LeaseGrant {
        /// The id to grant.
        lease: LeaseId,
        /// Time to live, in seconds.
        ttl: i64,
    },
    /// Revokes a lease and deletes its keys.
    LeaseRevoke {
        /// The lease to end.
        lease: LeaseId,
    },
    /// Asks how long a lease still lives and which keys are attached to it.
    LeaseTimeToLive {
        /// The lease asked about.
        lease: LeaseId,
    },
}

/// A key and its value as etcd stores them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value; empty where only keys were asked for.
    pub value: Arc<[u8]>,
    /// The revision at which the key was created: the fencing token of a contender.
    pub create_revision: i64,
    /// The revision of its last write.
    pub mod_revision: i64,
    /// The lease it is attached to; not told where only keys were asked for.
    pub lease: Option<LeaseId>,
}

/// What a range read found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RangeReply {
    /// The keys, up to the limit.
    pub kvs: Vec<KeyValue>,
    /// How many keys the range has, regardless of the limit.
    pub count: i64,
}

/// What one operation of a transaction did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpReply {
    /// Written.
    Put,
    /// So many keys were deleted.
    Delete(i64),
    /// Read.
    Range(RangeReply),
    /// Done, one way or the other.
    Txn(TxnReply),
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnReply {
    /// Whether the conditions held.
    pub succeeded: bool,
    /// One reply for each operation of the branch that was taken.
    pub replies: Vec<OpReply>,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The store's revision when it answered; for a write, the revision of that write. Positive.
    pub revision: i64,
    /// Which cluster answered; 0 where that is not told. Another id is another history, the same id does not prove the same one: a
    /// cluster restored with the same token and addresses has the same.
    pub cluster: u64,
    /// What was asked for.
    pub body: ReplyBody,
}

/// The part of a [`Reply`] that depends on the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplyBody {
    /// To [`Request::Txn`].
    Txn(TxnReply),
    /// To [`Request::Range`].
    Range(RangeReply),
    /// To [`Request::LeaseGrant`]: the time to live that the server chose, in seconds.
    LeaseGrant {
        /// Granted time to live, in seconds.
        ttl: i64,
    },
    /// To [`Request::LeaseRevoke`]. A lease that does not exist is answered with [`ErrorKind::LeaseNotFound`].
    LeaseRevoke,
    /// To [`Request::LeaseTimeToLive`].
    LeaseTimeToLive {
        /// Remaining time to live in seconds; −1 where the lease does not exist.
        ttl: i64,
        /// The keys attached to the lease.
        keys: Vec<Key>,
    },
}

/// What kind of failure a call met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The endpoint could not be reached, or has no leader.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// The user, password, token or certificate was refused.
    Unauthenticated,
    /// The user may not do that.
    PermissionDenied,
    /// The lease does not exist (any more).
    LeaseNotFound,
    /// A lease with this id exists already: an earlier grant of ours was applied.
    LeaseExists,
    /// Out of space, or too many requests.
    ResourceExhausted,
    /// etcd says that the request is malformed.
    Invalid,
    /// etcd does not know this call.
    Unsupported,
    /// The store was closed.
    Closed,
    /// Anything else.
    Internal,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreError {
    /// What happened.
    pub kind: ErrorKind,
    /// Whether the request may have been applied, or may be applied later. `false` only where it surely was not and will not be.
    pub ambiguous: bool,
    /// For people: which endpoint, what it said. Holds no secret.
    pub message: String,
}

impl StoreError {
    /// A failure after which the request surely has no effect.
    pub fn refused(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, ambiguous: false, message: text::printable(&message.into()).into_owned() }
    }

    /// A failure after which nobody knows whether the request had, or will have, an effect.
    pub fn ambiguous(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, ambiguous: true, message: text::printable(&message.into()).into_owned() }
    }

    /// Whether the same request may be answered if it is sent again.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ResourceExhausted)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// A boxed future that a store returns.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Messages of a stream that wait to be read.
pub(crate) const STREAM_BACKLOG: usize = 64;

/// The acknowledgement of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Renewed {
    /// The lease that was renewed.
    pub lease: LeaseId,
    /// Its time to live from now, in seconds; 0 or less means that the lease does not exist.
    pub ttl: i64,
}

/// A stream of renewals: one acknowledgement for each lease id sent, in order. It ends with the first error.
#[derive(Debug)]
pub struct RenewalStream {
    /// Renewals to send. Dropping it ends the stream.
    pub requests: mpsc::UnboundedSender<LeaseId>,
    /// Their acknowledgements. Closed without an error when the stream ended in an orderly way. Bounded: who does not read makes
    /// the server wait.
    pub replies: mpsc::Receiver<Result<Renewed, StoreError>>,
}

/// Tells the watches of one stream apart. Chosen by us, positive, never reused within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i64);

/// What is sent on a watch stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchRequest {
    /// Watch these keys from now on.
    Create(WatchId, Keys),
    /// Stop this watch.
    Cancel(WatchId),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchEvent {
    /// The key that changed.
    pub key: Key,
    /// The revision of the change.
    pub revision: i64,
    /// What happened to it.
    pub change: Change,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It was written.
    Put {
        /// What was written.
        value: Arc<[u8]>,
        /// The revision at which it was created.
        create_revision: i64,
        /// The lease it is attached to.
        lease: Option<LeaseId>,
    },
    /// It was deleted, or its lease ended.
    Delete,
}

/// What comes back on a watch stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchReply {
    /// The watch stands; every change after `revision` will be told.
    Created {
        /// Which watch.
        id: WatchId,
        /// The store's revision when it was registered.
        revision: i64,
    },
    /// Changes, in the order of their revisions. Changes of one revision come together.
    Events {
        /// Which watch.
        id: WatchId,
        /// The changes.
        events: Vec<WatchEvent>,
    },
    /// The server ended the watch (compaction, permission, an expired token): create it anew, under a new id.
    Cancelled {
        /// Which watch.
        id: WatchId,
        /// Why, where it is known.
        error: StoreError,
    },
}

/// A stream that carries any number of watches. It ends with the first error; then all its watches are gone.
#[derive(Debug)]
pub struct WatchStream {
    /// Watches to create and to cancel. Dropping it ends the stream.
    pub requests: mpsc::UnboundedSender<WatchRequest>,
    /// What happens to them. Bounded, as there.
    pub replies: mpsc::Receiver<Result<WatchReply, StoreError>>,
}

/// An etcd, real or not. Must be used inside a tokio runtime; opens nothing before the first call.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Sends `request` once and waits for its answer for at most `timeout`. A store never repeats a request that may have
    /// been applied: that is for the caller, who knows which requests are safe to repeat.
    ///
    /// Dropping the future gives the answer up, not the request: it may be applied all the same.
    fn call(&self, request: Request, timeout: Duration) -> StoreFuture<Reply>;

    /// Opens a stream of renewals. `hedge` counts the streams that were opened for the same renewal before this one: each is
    /// opened on another endpoint than the one before, where there is another.
    fn renewals(&self, hedge: u32) -> RenewalStream;

    /// Opens a stream of watches on the endpoint that is thought best now.
    fn watches(&self) -> WatchStream;
}

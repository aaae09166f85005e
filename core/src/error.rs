//! What can go wrong: one table of stable numbers and names, the same in every language.

use std::{fmt, sync::Arc};

use crate::{
    store::{ErrorKind, StoreError},
    text,
};

/// The stable number of an error. Numbers and names are the same in every language and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(i32)]
pub enum Code {
    /// The wait limit passed, or a try found the lock taken.
    NotAcquired = 10,
    /// The caller cancelled the operation.
    Cancelled = 11,
    /// The lock was lost: this guard can no longer prove that it holds it.
    Lost = 12,
    /// There is no such hold: released before, or the token is unknown.
    NotHeld = 13,
    /// A scope inside a scope of the same name, in one thread or task.
    WouldDeadlock = 14,
    /// An argument or option is outside its range; nothing was done.
    InvalidArgument = 20,
    /// The client was closed.
    Closed = 21,
    /// The handle belongs to the parent process of a fork.
    Forked = 22,
    /// No endpoint could be reached.
    Unavailable = 30,
    /// etcd did not answer within the time limit; a write may or may not have taken effect.
    DeadlineExceeded = 31,
    /// etcd refused the user, the password or the certificate.
    Unauthenticated = 32,
    /// The user's roles do not allow this key.
    PermissionDenied = 33,
    /// Contenders of one name disagree about its limit.
    LimitMismatch = 34,
    /// The server, or this build, cannot do that.
    Unsupported = 35,
    /// etcd is out of space or refuses more requests.
    ResourceExhausted = 36,
    /// A bug in leasehold; please report it.
    Internal = 99,
}

impl Code {
    /// Every code, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::NotAcquired,
        Self::Cancelled,
        Self::Lost,
        Self::NotHeld,
        Self::WouldDeadlock,
        Self::InvalidArgument,
        Self::Closed,
        Self::Forked,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::LimitMismatch,
        Self::Unsupported,
        Self::ResourceExhausted,
        Self::Internal,
    ];

    /// The number that crosses every language boundary.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The stable name, in upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAcquired => "NOT_ACQUIRED",
            Self::Cancelled => "CANCELLED",
            Self::Lost => "LOST",
            Self::NotHeld => "NOT_HELD",
            Self::WouldDeadlock => "WOULD_DEADLOCK",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::Closed => "CLOSED",
            Self::Forked => "FORKED",
            Self::Unavailable => "UNAVAILABLE",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::LimitMismatch => "LIMIT_MISMATCH",
            Self::Unsupported => "UNSUPPORTED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a guard no longer proves that it holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(i32)]
pub enum LostReason {
    /// The lease ran out: no renewal was acknowledged in time.
    Expired = 1,
    /// Somebody deleted the guard's key while its lease lived.
    KeyDeleted = 2,
    /// etcd ended the lease before its time.
    LeaseRevoked = 3,
    /// The client was closed while the lock was held.
    ClientClosed = 4,
    /// The guard belongs to the parent process of a fork.
    Forked = 5,
    /// etcd went back in time: it was restored from a backup, or lost its data.
    StoreRestored = 6,
}

impl LostReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Expired, Self::KeyDeleted, Self::LeaseRevoked, Self::ClientClosed, Self::Forked, Self::StoreRestored];

    /// The number that crosses every language boundary.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The stable name, in upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "EXPIRED",
            Self::KeyDeleted => "KEY_DELETED",
            Self::LeaseRevoked => "LEASE_REVOKED",
            Self::ClientClosed => "CLIENT_CLOSED",
            Self::Forked => "FORKED",
            Self::StoreRestored => "STORE_RESTORED",
        }
    }

    /// One sentence for people.
    const fn explanation(self) -> &'static str {
        match self {
            Self::Expired => "its lease ran out before etcd acknowledged a renewal",
            Self::KeyDeleted => "somebody deleted its key in etcd",
            Self::LeaseRevoked => "etcd ended its lease before its time",
            Self::ClientClosed => "the client was closed while it was held",
            Self::Forked => "it belongs to the parent of this forked process",
            Self::StoreRestored => "etcd was restored from a backup or lost its data, so that tokens may repeat",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error of leasehold: a stable [`Code`] and a message that says what was wrong and what to do about it.
///
/// Messages hold no password, token or value of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    code: Code,
    message: String,
    reason: Option<LostReason>,
    source: Option<Arc<StoreError>>,
}

/// The result of an operation of leasehold.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with `code` and a message for people.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        // Names, keys and what servers say come into messages in many places: whatever they hold, no message forges a line.
        Self { code, message: text::printable(&message.into()).into_owned(), reason: None, source: None }
    }

    /// The error of whoever uses a guard that was lost for `reason`.
    pub fn lost(name: &str, reason: LostReason) -> Self {
        let message = format!(
            "the lock {} was lost: {}; stop the work it protects, and let the fencing token refuse what is still on its way",
            text::quoted(name),
            reason.explanation()
        );
        Self { code: Code::Lost, message, reason: Some(reason), source: None }
    }

    /// The error of an operation that failed because the store did; `what` says what was tried.
    pub(crate) fn from_store(error: &StoreError, what: &str) -> Self {
        let code = match error.kind {
            ErrorKind::Unavailable => Code::Unavailable,
            ErrorKind::Timeout => Code::DeadlineExceeded,
            ErrorKind::Unauthenticated => Code::Unauthenticated,
            ErrorKind::PermissionDenied => Code::PermissionDenied,
            ErrorKind::ResourceExhausted => Code::ResourceExhausted,
            ErrorKind::Invalid => Code::InvalidArgument,
            ErrorKind::Unsupported => Code::Unsupported,
            ErrorKind::Closed => Code::Closed,
            ErrorKind::LeaseNotFound | ErrorKind::LeaseExists | ErrorKind::Internal => Code::Internal,
        };
        Self { source: Some(Arc::new(error.clone())), ..Self::new(code, format!("{what}: {error}")) }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether this is [`Code::NotAcquired`]: the wait limit passed, or a try found the lock taken. Nothing is wrong then.
    pub fn is_not_acquired(&self) -> bool {
        self.code == Code::NotAcquired
    }

    /// The message for people, without the code.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Why the lock was lost, where that is known ([`Code::Lost`] only).
    pub fn reason(&self) -> Option<LostReason> {
        self.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {
    /// What etcd, or the way to it, said, where the operation failed by that. The message of this error repeats it, because
    /// most programs print no chain.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

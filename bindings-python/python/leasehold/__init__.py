"""A distributed lock on etcd v3 that you hold by lease, with fencing tokens.

>>> import leasehold
>>> with leasehold.Client("memory://") as client:  # or "http://127.0.0.1:2379"
...     with client.lock("/lock/mylock", timeout=5) as guard:
...         assert guard.held  # send guard.token along with what you write

`leasehold.aio` is the same for asyncio and trio, `leasehold.testing` helps the tests of programs that lock.
"""

# First: it says what to do where the native module cannot be loaded.
from leasehold import _load as _load
from leasehold._as_lock import ThreadLock
from leasehold._base import LockOptions
from leasehold._codes import Code, LostReason
from leasehold._errors import (
    AuthenticationError,
    ClientClosed,
    DeadlineExceeded,
    ForkedError,
    InternalError,
    InvalidArgument,
    LeaseholdError,
    LimitMismatch,
    LockLost,
    LockTimeout,
    NotHeld,
    OperationCancelled,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unsupported,
    WouldDeadlock,
)
from leasehold._metrics import Family, Histogram, Metrics, Sample
from leasehold._native import Cancel, __version__
from leasehold._process import release_at_exit
from leasehold._sync import Client
from leasehold._sync_election import Election, Observation
from leasehold._sync_guard import Guard, Leadership, Txn
from leasehold._sync_lock import Lock, Locking, ReadWriteLock, Semaphore, Together, current_guard
from leasehold._values import Committed, Contender, Leader, LocalFirst, Permits, SessionState

__all__ = [
    "AuthenticationError",
    "Cancel",
    "Client",
    "ClientClosed",
    "Code",
    "Committed",
    "Contender",
    "DeadlineExceeded",
    "Election",
    "Family",
    "ForkedError",
    "Guard",
    "Histogram",
    "InternalError",
    "InvalidArgument",
    "Leader",
    "Leadership",
    "LeaseholdError",
    "LimitMismatch",
    "LocalFirst",
    "Lock",
    "LockLost",
    "LockOptions",
    "LockTimeout",
    "Locking",
    "LostReason",
    "Metrics",
    "NotHeld",
    "Observation",
    "OperationCancelled",
    "PermissionDenied",
    "Permits",
    "ReadWriteLock",
    "ResourceExhausted",
    "Sample",
    "Semaphore",
    "SessionState",
    "ThreadLock",
    "Together",
    "Txn",
    "Unavailable",
    "Unsupported",
    "WouldDeadlock",
    "__version__",
    "current_guard",
    "release_at_exit",
]

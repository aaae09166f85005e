"""A distributed lock on etcd v3 that you hold by lease, with fencing tokens.

>>> import leasehold
>>> with leasehold.Client("memory://") as client:  # or "http://127.0.0.1:2379"
...     with client.lock("/lock/mylock", timeout=5) as guard:
...         assert guard.held  # send guard.token along with what you write

`leasehold.aio` is the same for asyncio and trio, `leasehold.testing` helps the tests of programs that lock.
"""

from leasehold._errors import (
    AuthenticationError,
    ClientClosed,
    Code,
    DeadlineExceeded,
    ForkedError,
    InternalError,
    InvalidArgument,
    LeaseholdError,
    LimitMismatch,
    LockLost,
    LockTimeout,
    LostReason,
    NotHeld,
    OperationCancelled,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unsupported,
    WouldDeadlock,
)
from leasehold._native import Cancel, __version__
from leasehold._process import release_at_exit
from leasehold._sync import Client, Guard, Lock, Txn
from leasehold._values import Committed, Contender, SessionState

__all__ = [
    "AuthenticationError",
    "Cancel",
    "Client",
    "ClientClosed",
    "Code",
    "Committed",
    "Contender",
    "DeadlineExceeded",
    "ForkedError",
    "Guard",
    "InternalError",
    "InvalidArgument",
    "LeaseholdError",
    "LimitMismatch",
    "Lock",
    "LockLost",
    "LockTimeout",
    "LostReason",
    "NotHeld",
    "OperationCancelled",
    "PermissionDenied",
    "ResourceExhausted",
    "SessionState",
    "Txn",
    "Unavailable",
    "Unsupported",
    "WouldDeadlock",
    "__version__",
    "release_at_exit",
]

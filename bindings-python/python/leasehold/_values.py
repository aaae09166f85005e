"""What operations bring, and how arguments are handed to them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from leasehold._codes import LostReason
from leasehold._errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Far beyond every limit of the core, which says what the limit is; only what no integer of it can hold stops here.
_MOST_SECONDS = 10**12

Span: TypeAlias = "float | timedelta"
"""A span of time: a number of seconds, or a `timedelta`."""


class Default(enum.Enum):
    """What stands for an argument that is left out, where `None` says something."""

    DEFAULT = "the lock's"


DEFAULT = Default.DEFAULT


@dataclass(frozen=True)
class Permits:
    """So many permits of a semaphore that has `limit` of them."""

    permits: int
    limit: int


@dataclass(frozen=True)
class LocalFirst:
    """How far a client passes a lock on among its own waiters while others wait: whichever bound is reached first."""

    turns: int = 64
    """How many owners it may have one after the other, the first one included; at least 1."""
    time: Span = 0.1
    """For how long it may be passed on after it was won, in seconds; more than zero, at most 60."""


@dataclass(frozen=True)
class Leader:
    """Who leads an election."""

    key: str
    """Its key in etcd, namespace included."""
    token: int
    """Its fencing token: greater than that of every leader before."""
    value: bytes
    """What it proclaims."""
    revision: int
    """The revision of etcd at which it proclaimed that."""


def leader(fields: tuple[str, int, bytes, int] | None) -> Leader | None:
    """From what the native module says."""
    return None if fields is None else Leader(*fields)


@dataclass(frozen=True)
class Contender:
    """Somebody in the queue of a lock."""

    key: str
    """Its key in etcd, namespace included."""
    token: int
    """Its fencing token."""
    lease: str | None
    """Its lease in hexadecimal. `None` is a key that never ends by itself: somebody wrote it by hand."""
    identity: str | None
    """Who it says it is."""
    host: str | None
    """The host it runs on."""
    pid: int | None
    """Its process there."""
    since: datetime | None
    """Since when it waits or holds, in UTC, by its own clock."""
    version: str | None
    """The version of leasehold that it uses."""
    claim: Literal["exclusive", "shared"] | Permits
    """What it claims of the name."""
    is_holder: bool
    """Whether it holds; otherwise it waits for somebody ahead of it."""
    foreign: bool
    """Whether it is no client of leasehold but, say, `etcdctl lock`."""


def contender(fields: tuple[Any, ...]) -> Contender:
    """From what the native module says."""
    key, token, lease, (identity, host, pid, since, version), is_shared, permits, is_holder, foreign = fields
    claim: Literal["exclusive", "shared"] | Permits = "shared" if is_shared else "exclusive"
    if permits is not None:
        claim = Permits(*permits)
    try:
        when = None if since is None else datetime.fromisoformat(since.replace("Z", "+00:00"))
    except ValueError:
        when = None  # What stands in a key, anybody may have written.
    return Contender(key, token, lease, identity, host, pid, when, version, claim, is_holder, foreign)


@dataclass(frozen=True)
class Committed:
    """What a guarded transaction did."""

    revision: int
    """The revision of etcd after it; if it wrote, the revision of its writes."""
    deleted: int
    """How many keys were deleted."""
    values: tuple[bytes | None, ...]
    """The values read, in the order of the reads; `None` where the key did not exist."""


@dataclass(frozen=True)
class SessionState:
    """How the session of a client's locks feels. They are held while it is `ok` or `suspect`."""

    name: Literal["ok", "suspect", "lost"]
    """`suspect`: a renewal is overdue, there is time left to stop in good order. `lost`: it is over."""
    reason: LostReason | None = None
    """Why it was lost."""


def session_state(fields: object) -> SessionState:
    """From what the native module says: the name, and the number of the reason."""
    name, reason = cast("tuple[Literal['ok', 'suspect', 'lost'], int | None]", fields)
    return SessionState(name, None if reason is None else LostReason(reason))


def wait_limit(seconds: object, what: str) -> int | None:
    """As `milliseconds`, for a wait that may have no end: `None`, or `math.inf`."""
    return None if seconds == math.inf else milliseconds(seconds, what)


def milliseconds(seconds: object, what: str) -> int | None:
    """A span as the core takes it, rounded up, so that only zero is zero.

    Raises:
        InvalidArgument: it is negative, no number, or beyond all bounds.
    """
    if seconds is None:
        return None
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        msg = f"{what} must be a number of seconds, not {type(seconds).__name__}"
        raise InvalidArgument(msg)
    if not 0 <= seconds <= _MOST_SECONDS:  # which no NaN is, either
        msg = f"{what} must be a number of seconds from 0 up, not {seconds}"
        raise InvalidArgument(msg)
    return math.ceil(seconds * 1000)


def span(seconds: Span, what: str) -> int:
    """As `milliseconds`, for a span that must be given."""
    millis = milliseconds(seconds, what)
    if millis is None:
        msg = f"{what} must be a number of seconds, not None"
        raise InvalidArgument(msg)
    return millis


def as_bytes(text: str | bytes) -> bytes:
    """A key or value as etcd takes it."""
    return text.encode() if isinstance(text, str) else bytes(text)


def count(value: object, what: str) -> int:
    """A number that the core can be given; whether it makes sense there, it says itself.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        msg = f"{what} must be a whole number from 0 to {2**32 - 1}, not {value!r}"
        raise InvalidArgument(msg)
    return value


def endpoints(url: str | Sequence[str]) -> str:
    """One URL for an endpoint or several."""
    return url if isinstance(url, str) else ",".join(url)

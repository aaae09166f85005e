"""What operations bring, and how arguments are handed to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from leasehold._errors import InvalidArgument, LostReason

if TYPE_CHECKING:
    from collections.abc import Sequence

# Far beyond every limit of the core, which says what the limit is; only what no integer of it can hold stops here.
_MOST_SECONDS = 10**12


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
    since: str | None
    """Since when it waits or holds, in UTC (RFC 3339)."""
    version: str | None
    """The version of leasehold that it uses."""
    foreign: bool
    """Whether it is no client of leasehold but, say, `etcdctl lock`."""


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


def milliseconds(seconds: object, what: str) -> int | None:
    """A span in seconds as the core takes it, rounded up, so that only zero is zero.

    Raises:
        InvalidArgument: it is negative, no number, or beyond all bounds.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        msg = f"{what} must be a number of seconds, not {type(seconds).__name__}"
        raise InvalidArgument(msg)
    if not 0 <= seconds <= _MOST_SECONDS:  # which no NaN is, either
        msg = f"{what} must be a number of seconds from 0 up, not {seconds}"
        raise InvalidArgument(msg)
    return math.ceil(seconds * 1000)


def span(seconds: float, what: str) -> int:
    """As `milliseconds`, for a span that must be given."""
    millis = milliseconds(seconds, what)
    if millis is None:
        msg = f"{what} must be a number of seconds, not None"
        raise InvalidArgument(msg)
    return millis


def as_bytes(text: str | bytes) -> bytes:
    """A key or value as etcd takes it."""
    return text.encode() if isinstance(text, str) else bytes(text)


def endpoints(url: str | Sequence[str]) -> str:
    """One URL for an endpoint or several."""
    return url if isinstance(url, str) else ",".join(url)

"""What the clients and locks of threads and of event loops have in common: options, and calls that are not started yet."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, Generic, TypedDict

from leasehold import _logs, _native
from leasehold._errors import InvalidArgument
from leasehold._metrics import Metrics
from leasehold._scopes import G, Scopes
from leasehold._values import (
    DEFAULT,
    Default,
    LocalFirst,
    as_bytes,
    count,
    endpoints,
    milliseconds,
    span,
    wait_limit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextvars import ContextVar

    from leasehold import _shapes
    from leasehold._values import Span


class ClientBase:
    """A client: one etcd cluster, the connections to it, and the sessions of its locks."""

    __slots__ = ("__weakref__", "_native", "_place")

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        ttl: Span | None = None,
        namespace: str | None = None,
        identity: str | None = None,
        user: str | None = None,
        password: str | None = None,
        plaintext_password: bool | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        connect_timeout: Span | None = None,
        request_timeout: Span | None = None,
    ) -> None:
        """Checks the options. Opens no connection and starts no thread: the first operation does.

        Args:
            url: One endpoint or several, as a list or separated by commas, such as `http://127.0.0.1:2379`; options can follow
                behind a question mark. `memory://name` is a store inside this process, for unit tests, shared by all its
                clients of that name; `memory://` is one of this client's own.
            ttl: How long a lock stays taken after its owner crashed: 2 s to 30 days, rounded up to whole seconds; default 15 s.
            namespace: Put before every name and every key that a guard writes.
            identity: Shown to whoever looks at the queue; default `<host>:<pid>`.
            user: Where etcd asks for one.
            password: The user's.
            plaintext_password: Whether the password may go over plain `http://` to other machines, where everybody on the way
                can read it; default no. To this machine itself, and over `https://`, it always may.
            ca_file: Authorities to trust (PEM); default: those that the machine trusts.
            cert_file: Our own certificate (PEM), where etcd asks for one.
            key_file: Its key (PEM).
            connect_timeout: To open one connection, in seconds, 0.01 to 3600; default 2.
            request_timeout: For one operation that does not wait for a lock, all attempts together; likewise; default 5.

        Raises:
            InvalidArgument: an option is wrong; the message says which, and what it should be.
        """
        url = endpoints(url)
        if url == "memory://":
            url += uuid.uuid4().hex
        self._place = (url, namespace or "")
        self._native = _native.Client(
            url,
            ttl_ms=milliseconds(ttl, "the TTL"),
            namespace=namespace,
            identity=identity,
            user=user,
            password=password,
            plaintext_password=plaintext_password,
            ca_file=_path(ca_file),
            cert_file=_path(cert_file),
            key_file=_path(key_file),
            connect_timeout_ms=milliseconds(connect_timeout, "the connect timeout"),
            request_timeout_ms=milliseconds(request_timeout, "the request timeout"),
        )

    @property
    def identity(self) -> str:
        """Who this client says it is to whoever looks at a queue."""
        return self._native.identity

    def metrics(self) -> Metrics:
        """What it has counted and timed in this process. Asks nobody.

        `leasehold.prometheus` and `leasehold.opentelemetry` hand it on.
        """
        return Metrics.of(*self._native.metrics())

    def __reduce__(self) -> str:
        """Refuses: its connections cannot travel."""
        msg = "a client stays in its process; make one in each (after a fork, the same object goes on working)"
        raise TypeError(msg)


def insides(client: ClientBase) -> tuple[_native.Client, tuple[str, str]]:
    """The native half of a client, and what makes its names its own: for the rest of the package."""
    return client._native, client._place  # pyright: ignore[reportPrivateUsage] - here alone


class LockOptions(TypedDict, total=False):
    """How a lock is acquired: keywords of everything that makes one."""

    ttl: Span | None
    """The TTL of its holds, in seconds, instead of the client's; each TTL has a session of its own."""
    timeout: Span | None
    """How long `with` and `acquire` wait, in seconds; 0 is a try; `None` and `math.inf` are as long as it takes."""
    renew: bool
    """With `False` a hold ends at its TTL, whatever its owner does: a lock that frees itself."""
    requeue: bool
    """With `False` an acquire fails with `LockLost` if its session is lost while it waits, and does not queue anew."""
    local_first: bool | LocalFirst
    """Whether waiters of this client pass the lock on among themselves, within a bound, while others wait. Their holds share a
    token and differ in `sequence`. For exclusive locks that are renewed."""
    linger: Span | None
    """For how long the lock stays with this client after a release, in seconds, at most an hour: the next acquire here asks
    nobody. It goes at once when anybody else comes. For exclusive locks that are renewed."""


class How:
    """Options, checked."""

    __slots__ = ("linger_ms", "local_first", "renew", "requeue", "ttl_ms", "wait_ms")

    def __init__(
        self,
        ttl: Span | None = None,
        timeout: Span | None = None,
        renew: bool = True,
        requeue: bool = True,
        local_first: bool | LocalFirst = False,
        linger: Span | None = None,
    ) -> None:
        """See `LockOptions`.

        Raises:
            InvalidArgument: a span or number cannot be one.
        """
        self.ttl_ms = milliseconds(ttl, "the TTL")
        self.wait_ms = wait_limit(timeout, "the timeout")
        self.renew = renew
        self.requeue = requeue
        self.local_first: tuple[int, int] | None = None
        if local_first is not False:
            bound = LocalFirst() if local_first is True else local_first
            self.local_first = count(bound.turns, "turns"), span(bound.time, "the time of local_first")
        self.linger_ms = milliseconds(linger, "linger")

    def options(self, timeout: Span | Default | None) -> _shapes.Options:
        """As the native module takes them, with this limit in place of the default."""
        wait_ms = self.wait_ms if isinstance(timeout, Default) else wait_limit(timeout, "the timeout")
        return wait_ms, self.ttl_ms, self.renew, self.requeue, self.local_first, self.linger_ms


class LockBase(Generic[G]):
    """One name or several that can be locked, and how. Costs nothing; only guards hold."""

    __slots__ = ("__weakref__", "_claims", "_how", "_native", "_place", "_scopes")

    def __init__(
        self, client: ClientBase, claims: Sequence[_shapes.Claim], how: How, current: ContextVar[G | None]
    ) -> None:
        """Locks come from clients. `current` is the innermost guard of a context."""
        self._native, self._place = insides(client)
        self._claims = list(claims)
        self._how = how
        url, namespace = self._place
        places = {(url, f"{namespace}{name}"): (is_shared, permits) for name, is_shared, permits in claims}
        self._scopes: Scopes[G] = Scopes(places, not how.renew, current)

    @property
    def names(self) -> tuple[str, ...]:
        """What is locked, in the order asked."""
        return tuple(name for name, _, _ in self._claims)

    def _acquiring(
        self, timeout: Span | Default | None = DEFAULT, cancel: _native.Cancel | None = None
    ) -> _native.Call[_native.Guard]:
        _logs.attend()
        return self._native.acquire(self._claims, self._how.options(timeout), cancel)

    def __repr__(self) -> str:
        """For people."""
        return f"<{type(self).__module__}.{type(self).__name__} {', '.join(map(repr, self.names))}>"


def insides_of_lock(lock: LockBase[G]) -> tuple[_native.Client, list[_shapes.Claim], Scopes[G]]:
    """Whose it is, what it claims, and who is inside of it: for the rest of the package."""
    return lock._native, lock._claims, lock._scopes  # pyright: ignore[reportPrivateUsage] - here alone


class ElectionBase:
    """The election of a name: its candidates queue, and the first of them leads."""

    __slots__ = ("__weakref__", "_how", "_native", "name")

    def __init__(self, client: ClientBase, name: str, how: How) -> None:
        """Elections come from clients."""
        self._native, _ = insides(client)
        self._how = how
        self.name = name

    def _campaigning(
        self, value: str | bytes, timeout: Span | Default | None, cancel: _native.Cancel | None = None
    ) -> _native.Call[_native.Guard]:
        _logs.attend()
        return self._native.campaign(self.name, as_bytes(value), self._how.options(timeout), cancel)

    def __repr__(self) -> str:
        """For people."""
        return f"<{type(self).__module__}.Election {self.name!r}>"


def claims_of(client: ClientBase, locks: Sequence[str | LockBase[Any]]) -> list[_shapes.Claim]:
    """What several locks claim together.

    Raises:
        InvalidArgument: one of them is another client's.
    """
    claims: list[_shapes.Claim] = []
    for lock in locks:
        if isinstance(lock, str):
            claims.append((lock, False, None))
            continue
        owner, its, _ = insides_of_lock(lock)
        if owner is not insides(client)[0]:
            msg = f"{lock!r} is of another client: only locks of one client can be acquired together"
            raise InvalidArgument(msg)
        claims.extend(its)
    return claims


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)

"""The locks of threads: every acquire blocks, without the GIL, and answers Ctrl-C."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

from leasehold import _dispatch, _green, _native
from leasehold._as_lock import ThreadLock
from leasehold._base import LockBase
from leasehold._errors import LockTimeout
from leasehold._green import wait
from leasehold._guard import claim
from leasehold._sync_guard import Guard
from leasehold._values import DEFAULT, contender, count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from leasehold import _shapes
    from leasehold._base import ClientBase, How
    from leasehold._errors import LeaseholdError
    from leasehold._native import Cancel
    from leasehold._scopes import Owner
    from leasehold._values import Contender, Default, Span

_current: ContextVar[Guard | None] = ContextVar("leasehold.current_guard", default=None)


def current_guard() -> Guard | None:
    """The guard of the innermost `with` block of a lock that this code runs in, or of `synchronized`; `None` outside of all.

    >>> import leasehold
    >>> client = leasehold.Client("memory://")
    >>> @client.synchronized("job")
    ... def work() -> bool:
    ...     guard = leasehold.current_guard()
    ...     return guard is not None and guard.held
    >>> work()
    True
    """
    return _current.get()


class Locking(LockBase[Guard]):
    """What can be locked by threads. Use it with `with`, which never runs its body without the lock."""

    __slots__ = ()

    def __init__(self, client: ClientBase, claims: Sequence[_shapes.Claim], how: How) -> None:
        """Locks come from clients."""
        super().__init__(client, claims, how, _current)

    def acquire(self, timeout: Span | Default | None = DEFAULT, *, cancel: Cancel | None = None) -> Guard:
        """Waits for the lock, in the order of the queue.

        Args:
            timeout: In seconds, instead of the lock's; 0 is a try; `None` and `math.inf` are as long as it takes.
            cancel: Lets another thread end the wait.

        Raises:
            LockTimeout: it passed; up to a second later if etcd does not confirm that the place in the queue is given up.
            InvalidArgument: a bad name, TTL or timeout, no permits or too many, a name twice.
            LimitMismatch: others in the queue have another limit of the semaphore.
            Unavailable, DeadlineExceeded, AuthenticationError, PermissionDenied, ResourceExhausted: the queue could not be
                joined within the request timeout.
            ClientClosed: the client is closed.
            OperationCancelled: `cancel` was cancelled. Nothing is left in the queue.
            LockLost: the session was lost while waiting, with `requeue=False`.

        Ctrl-C ends the wait within 100 ms and leaves nothing in the queue.
        """
        return claim(Guard(wait(self._acquiring(timeout, cancel))))

    def try_acquire(self, *, cancel: Cancel | None = None) -> Guard | None:
        """Takes the lock if nobody holds it or waits for it. Otherwise `None`. Errors are those of `acquire`."""
        try:
            return self.acquire(0, cancel=cancel)
        except LockTimeout:
            return None

    def acquire_future(self, timeout: Span | Default | None = DEFAULT) -> Future[Guard]:
        """As `acquire`, without waiting: the future brings the guard, or the error.

        Cancelling it gives up the place in the queue; then it counts as done. A guard that nobody asks it for is released when
        the future goes away.
        Callbacks that are added to it run on the thread for callbacks: they should be short.
        """
        future = _AcquireFuture()
        future.operation = _dispatch.start(self._acquiring(timeout), future.complete)
        return future

    def __enter__(self) -> Guard:
        """Acquires it; errors are those of `acquire`, and `WouldDeadlock` inside a `with` of the same name in this thread."""
        owner = _owner()
        self._scopes.check(owner, self._how.wait_ms)
        guard = None
        try:
            guard = Guard(wait(self._acquiring()))
            self._scopes.open(owner, guard)
            return claim(guard)
        except BaseException:
            self._scopes.abandon(guard)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it. `LockLost` if it was lost meanwhile, unless the body failed already."""
        guard, _ = self._scopes.close(_owner())
        guard.__exit__(kind, error, traceback)


class Lock(Locking):
    """A name that can be locked by threads."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What is locked."""
        return self._claims[0][0]

    def as_lock(self, *, reentrant: bool = False) -> ThreadLock:
        """The same lock in the shape of `threading.Lock`, or of `threading.RLock` if it is `reentrant`.

        >>> import leasehold
        >>> lock = leasehold.Client("memory://").lock("/lock/a").as_lock()
        >>> lock.acquire(timeout=1), lock.acquire(blocking=False)
        (True, False)
        >>> lock.release()
        """
        return ThreadLock(self, reentrant)

    def locked(self) -> bool:
        """Whether anybody holds it or waits for it. A moment later that may be wrong. Errors are those of `queue`."""
        return bool(self.queue())

    def queue(self) -> list[Contender]:
        """Everybody in the queue, the holder first, foreign clients included.

        Raises:
            Unavailable, DeadlineExceeded, AuthenticationError, PermissionDenied: it could not be read.
        """
        return [contender(fields) for fields in wait(self._native.queue(self.name))]

    def force_release(self, token: int) -> None:
        """Takes the lock, or the place in the queue, away from the contender with this token, whoever it is. For operators.

        Its owner may still be at work; only fencing keeps its late writes out.

        Raises:
            NotHeld: nobody in the queue has this token. Otherwise as `queue`.
        """
        wait(self._native.force_release(self.name, token))


class Semaphore(Lock):
    """A semaphore: so many permits of a name, taken by the acquires of everybody, first come, first served."""

    __slots__ = ("_client",)

    def __init__(self, client: ClientBase, name: str, permits: int, limit: int, how: How) -> None:
        """Semaphores come from clients."""
        claim = (count(permits, "permits"), count(limit, "the limit"))
        super().__init__(client, [(name, False, claim)], how)
        self._client = client

    def permits(self, permits: int) -> Semaphore:
        """The same semaphore, of which each acquire takes so many permits at once.

        Raises:
            InvalidArgument: that is no such number. More than the limit, or none, is told by `acquire`.
        """
        ((name, _, claim),) = self._claims
        _, limit = claim or (0, 0)
        return Semaphore(self._client, name, permits, limit, self._how)


class ReadWriteLock:
    """A name that many may read under, or one may write under; first come, first served, so that nobody starves."""

    __slots__ = ("_client", "_how", "name")

    def __init__(self, client: ClientBase, name: str, how: How) -> None:
        """Locks come from clients."""
        self._client = client
        self._how = how
        self.name = name

    def read(self) -> Lock:
        """Shared with everybody else who reads."""
        return Lock(self._client, [(self.name, True, None)], self._how)

    def write(self) -> Lock:
        """Alone: the lock of `client.lock`, in the same queue."""
        return Lock(self._client, [(self.name, False, None)], self._how)


class Together(Locking):
    """Several locks that are acquired at once, without deadlock, whatever the order: all of them or none."""

    __slots__ = ()


class _Thread:
    """A thread as the owner of blocks: lives as long as that does, which its ident does not say."""

    __slots__ = ("__weakref__",)

    def key(self) -> object:
        return self

    def depth(self) -> int:
        return 0

    def holds_up(self, holder: object, depth: int) -> bool:  # noqa: ARG002 - a thread waits for none
        return False


class _Greenlet(_Thread):
    """A greenlet as the owner of blocks."""

    __slots__ = ("_key",)

    def __init__(self, key: object) -> None:
        self._key = key

    def key(self) -> object:
        return self._key


class _Here(threading.local):
    def __init__(self) -> None:
        self.owner = _Thread()


_here = _Here()


def _owner() -> Owner:
    """Who runs here."""
    green = _green.library()
    return _here.owner if green is None else _Greenlet(green.here())


class _AcquireFuture(Future[Guard]):
    """A future whose guard is claimed by whoever asks for it, and whose cancelling reaches the queue in etcd."""

    operation: int | None = None

    def cancel(self) -> bool:
        is_cancelled = super().cancel()
        if is_cancelled and self.operation is not None:
            _native.cancel(self.operation)
        return is_cancelled

    def result(self, timeout: float | None = None) -> Guard:
        return claim(super().result(timeout))

    def complete(self, value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        # Of all that a future can be told, only this is what `wait` and `as_completed` hear of a cancelled one.
        if not self.set_running_or_notify_cancel():
            return  # A guard that came nevertheless has no taker, which releases it.
        if error is None:
            self.set_result(Guard(cast("_native.Guard", value)))
        else:
            self.set_exception(error)

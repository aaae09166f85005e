"""The locks of event loops."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from leasehold._base import How, LockBase, LockOptions
from leasehold._errors import LockTimeout
from leasehold._guard import claim
from leasehold._values import DEFAULT, contender, count
from leasehold.aio._as_lock import TaskLock
from leasehold.aio._guard import Guard
from leasehold.aio._host import host

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from leasehold import _shapes
    from leasehold._base import ClientBase
    from leasehold._values import Contender, Default, Span
    from leasehold.aio._host import Canceller

_current: ContextVar[Guard | None] = ContextVar("leasehold.aio.current_guard", default=None)


def current_guard() -> Guard | None:
    """The guard of the innermost `async with` block of a lock that this code runs in; `None` outside of all.

    Tasks that are started inside a block see its guard, too, for as long as they live.
    """
    return _current.get()


class AsyncLockOptions(LockOptions, total=False):
    """How a lock is acquired by tasks: as `leasehold.LockOptions`, and one more."""

    cancel_on_loss: bool
    """Whether `async with` cancels its body when the lock is lost; leaving it then raises `LockLost`."""


class AsyncHow(How):
    """Options, checked."""

    __slots__ = ("cancel_on_loss",)

    def __init__(self, cancel_on_loss: bool = False, **options: Any) -> None:
        """See `AsyncLockOptions`."""
        super().__init__(**options)
        self.cancel_on_loss = cancel_on_loss


class Locking(LockBase[Guard]):
    """What can be locked by tasks. Use it with `async with`, which never runs its body without the lock."""

    __slots__ = ("_cancel_on_loss",)

    def __init__(self, client: ClientBase, claims: Sequence[_shapes.Claim], how: AsyncHow) -> None:
        """Locks come from clients."""
        super().__init__(client, claims, how, _current)
        self._cancel_on_loss = how.cancel_on_loss

    async def acquire(self, timeout: Span | Default | None = DEFAULT) -> Guard:
        """Waits for the lock, in the order of the queue; arguments and errors are those of `leasehold.Lock.acquire`.

        Cancelling the task gives up the place in the queue. Nothing is left behind, and a lock that was won at the same moment
        is released.
        """
        return claim(Guard(await host().run(self._acquiring(timeout))))

    async def try_acquire(self) -> Guard | None:
        """Takes the lock if nobody holds it or waits for it. Otherwise `None`. Errors are those of `acquire`."""
        try:
            return await self.acquire(0)
        except LockTimeout:
            return None

    async def __aenter__(self) -> Guard:
        """Acquires it; errors are those of `acquire`, and `WouldDeadlock` inside a block of the same name in this task."""
        here = host()
        owner = here.task()
        self._scopes.check(owner, self._how.wait_ms)
        guard = None
        try:
            guard = Guard(await here.run(self._acquiring()))
            canceller = here.canceller() if self._cancel_on_loss else None
            self._scopes.open(owner, guard, canceller)
            if canceller is not None:
                stop = canceller.cancel
                guard.on_lost(lambda _: stop())
            return claim(guard)
        except BaseException:
            self._scopes.abandon(guard)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Releases it. `LockLost` if it was lost meanwhile, unless the body failed already."""
        guard, more = self._scopes.close(host().task())
        canceller = cast("Canceller | None", more)
        was_ours = canceller is not None and canceller.leave(error)
        await guard.__aexit__(None if was_ours else kind, None if was_ours else error, traceback)
        return was_ours


class Lock(Locking):
    """A name that can be locked by tasks."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What is locked."""
        return self._claims[0][0]

    def as_lock(self) -> TaskLock:
        """The same lock in the shape of `asyncio.Lock`."""
        return TaskLock(self)

    async def locked(self) -> bool:
        """Whether anybody holds it or waits for it. A moment later that may be wrong. Errors are those of `queue`."""
        return bool(await self.queue())

    async def queue(self) -> list[Contender]:
        """Everybody in the queue, the holder first, foreign clients included; errors are those of `leasehold.Lock.queue`."""
        return [contender(fields) for fields in await host().run(self._native.queue(self.name))]

    async def force_release(self, token: int) -> None:
        """Takes the lock, or the place in the queue, away from the contender with this token; see `leasehold.Lock`."""
        await host().run(self._native.force_release(self.name, token))


class Semaphore(Lock):
    """A semaphore: so many permits of a name, taken by the acquires of everybody, first come, first served."""

    __slots__ = ("_client", "_options")

    def __init__(self, client: ClientBase, name: str, permits: int, limit: int, how: AsyncHow) -> None:
        """Semaphores come from clients."""
        claim = (count(permits, "permits"), count(limit, "the limit"))
        super().__init__(client, [(name, False, claim)], how)
        self._client = client
        self._options = how

    def permits(self, permits: int) -> Semaphore:
        """The same semaphore, of which each acquire takes so many permits at once; see `leasehold.Semaphore.permits`."""
        ((name, _, claim),) = self._claims
        _, limit = claim or (0, 0)
        return Semaphore(self._client, name, permits, limit, self._options)


class ReadWriteLock:
    """A name that many may read under, or one may write under; first come, first served, so that nobody starves."""

    __slots__ = ("_client", "_how", "name")

    def __init__(self, client: ClientBase, name: str, how: AsyncHow) -> None:
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

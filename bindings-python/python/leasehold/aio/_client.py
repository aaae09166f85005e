"""The client of event loops."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold._base import ClientBase, How, claims_of
from leasehold._completions import states
from leasehold._native import cancel
from leasehold._synchronized import synchronized_async
from leasehold.aio._election import Election
from leasehold.aio._host import host
from leasehold.aio._lock import AsyncHow, Lock, ReadWriteLock, Semaphore, Together

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, Unpack

    from leasehold._base import LockBase, LockOptions
    from leasehold._values import SessionState
    from leasehold.aio._lock import AsyncLockOptions

F = TypeVar("F", bound="Callable[..., Any]")


class Client(ClientBase):
    """A connection to an etcd cluster and the sessions of the locks taken through it. Make one per process and share it.

    Tasks of several loops may share it. Options, and what happens in a child of a fork, are those of `leasehold.Client`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, client: ClientBase) -> Self:
        """The same client, for event loops: it shares its connections and sessions with `client`, and closes with it."""
        shared = cls.__new__(cls)
        shared._native = client._native
        shared._place = client._place
        return shared

    def lock(self, name: str, **options: Unpack[AsyncLockOptions]) -> Lock:
        """The lock of this name; options are those of `leasehold.Client.lock`, and one more.

        With `cancel_on_loss`, `async with` cancels its body when the lock is lost; leaving it then raises `LockLost`.
        """
        return Lock(self, [(name, False, None)], AsyncHow(**options))

    def rwlock(self, name: str, **options: Unpack[AsyncLockOptions]) -> ReadWriteLock:
        """The readers-writer lock of this name; see `leasehold.Client.rwlock`."""
        return ReadWriteLock(self, name, AsyncHow(**options))

    def semaphore(self, name: str, limit: int, *, permits: int = 1, **options: Unpack[AsyncLockOptions]) -> Semaphore:
        """The semaphore of this name, which has `limit` permits in all; see `leasehold.Client.semaphore`."""
        return Semaphore(self, name, permits, limit, AsyncHow(**options))

    def all(self, *locks: str | LockBase[Any], **options: Unpack[AsyncLockOptions]) -> Together:
        """Several locks at once: names, and locks of this client of any kind; see `leasehold.Client.all`."""
        return Together(self, claims_of(self, locks), AsyncHow(**options))

    def election(self, name: str, **options: Unpack[LockOptions]) -> Election:
        """The election of this name; see `leasehold.Client.election`."""
        return Election(self, name, How(**options))

    def synchronized(self, name: str | Callable[..., str], **options: Unpack[AsyncLockOptions]) -> Callable[[F], F]:
        """Runs a coroutine function inside the lock that `name` makes of its arguments; see `leasehold.Client.synchronized`.

        Raises:
            InvalidArgument: `name` asks for something that is no parameter of the function, or its body would run later.
        """
        AsyncHow(**options)  # A mistake is told here.
        return synchronized_async(lambda made: self.lock(made, **options), name)

    async def ping(self) -> None:
        """Asks etcd for a sign of life; errors are those of `leasehold.Client.ping`."""
        await host().run(self._native.ping())

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        """Calls `callback` on the loop, in this context, with each change of the session's state. Call what it returns to end."""
        operation = host().start(self._native.on_state(), states(callback, contextvars.copy_context()))

        def end() -> None:
            cancel(operation)

        return end

    async def close(self) -> None:
        """Releases everything that this client holds or waits for, and ends it; see `leasehold.Client.close`."""
        await host().run(self._native.close())

    async def __aenter__(self) -> Self:
        """The client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

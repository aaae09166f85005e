"""The client, locks and guards of event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from leasehold._base import ClientBase, LockBase
from leasehold._completions import losses, states
from leasehold._errors import LeaseholdError, LockTimeout, LostReason
from leasehold._guard import GuardBase, claim
from leasehold._native import cancel
from leasehold._synchronized import synchronized_async
from leasehold._txn import TxnBase
from leasehold._values import Committed, Contender, SessionState, as_bytes, span
from leasehold.aio._host import host

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from leasehold.aio._host import Canceller, Event

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

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        requeue: bool = True,
        cancel_on_loss: bool = False,
    ) -> Lock:
        """The lock of this name; options are those of `leasehold.Client.lock`, and one more.

        With `cancel_on_loss`, `async with` cancels its body when the lock is lost; leaving it then raises `LockLost`.
        """
        return Lock(self, name, ttl, timeout, renew, requeue, cancel_on_loss)

    def synchronized(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        cancel_on_loss: bool = False,
    ) -> Callable[[F], F]:
        """Runs a coroutine function inside the lock that `name` makes of its arguments, such as `"job:{id}"`.

        Raises:
            InvalidArgument: `name` asks for something that is no parameter of the function.
        """
        options: dict[str, Any] = {"ttl": ttl, "timeout": timeout, "renew": renew, "cancel_on_loss": cancel_on_loss}
        return synchronized_async(lambda made: self.lock(made, **options), name)

    async def ping(self) -> None:
        """Asks etcd for a sign of life; errors are those of `leasehold.Client.ping`."""
        await host().run(self._native.ping())

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        """Calls `callback` on the loop with each change of the session's state. Call what it returns to end that."""
        operation = host().start(self._native.on_state(), states(callback))

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


class Lock(LockBase[tuple["Guard", "Canceller | None"]]):
    """A name that can be locked by tasks. Use it with `async with`, which never runs its body without the lock."""

    __slots__ = ("_cancel_on_loss",)

    def __init__(
        self,
        client: ClientBase,
        name: str,
        ttl: float | None,
        timeout: float | None,
        renew: bool,
        requeue: bool,
        cancel_on_loss: bool,
    ) -> None:
        """Locks come from clients."""
        super().__init__(client, name, ttl, timeout, renew, requeue)
        self._cancel_on_loss = cancel_on_loss

    async def acquire(self, timeout: float | None = None) -> Guard:
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

    async def locked(self) -> bool:
        """Whether anybody holds it or waits for it. A moment later that may be wrong. Errors are those of `queue`."""
        return bool(await self.queue())

    async def queue(self) -> list[Contender]:
        """Everybody in the queue, the holder first, foreign clients included; errors are those of `leasehold.Lock.queue`."""
        return [Contender(*fields) for fields in await host().run(self._native.queue(self.name))]

    async def force_release(self, token: int) -> None:
        """Takes the lock, or the place in the queue, away from the contender with this token; see `leasehold.Lock`."""
        await host().run(self._native.force_release(self.name, token))

    async def __aenter__(self) -> Guard:
        """Acquires it; errors are those of `acquire`, and `WouldDeadlock` inside a block of the same name in this task."""
        here = host()
        owner = here.task()
        self._scopes.check(owner)
        try:
            guard = Guard(await here.run(self._acquiring(None)))
            canceller = here.canceller() if self._cancel_on_loss else None
            self._scopes.open(owner, (guard, canceller))
            if canceller is not None:
                stop = canceller.cancel
                guard.on_lost(lambda _: stop())
            return claim(guard)
        except BaseException:
            self._scopes.abandon(owner)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Releases it. `LockLost` if it was lost meanwhile, unless the body failed already."""
        guard, canceller = self._scopes.close(host().task())
        was_ours = canceller is not None and canceller.leave(error)
        await guard.__aexit__(None if was_ours else kind, None if was_ours else error, traceback)
        return was_ours


class Guard(GuardBase):
    """A lock that is held by a task, or by whoever has this object. Release it, or use it with `async with`."""

    __slots__ = ()

    _lost: Event | None

    async def release(self) -> None:
        """Releases the lock and waits until etcd has confirmed that; errors are those of `leasehold.Guard.release`.

        Cancelled, it goes on in the background.
        """
        await host().run(self._native.release())

    async def extend(self, seconds: float) -> None:
        """Makes the hold last at least so long from now; see `leasehold.Guard.extend`."""
        await host().run(self._native.extend(span(seconds, "the span")))

    async def put(self, key: str | bytes, value: str | bytes) -> int:
        """Writes `value` under `key` if the lock is still held. Returns the revision; see `leasehold.Guard.put`."""
        return await host().run(self._native.put(as_bytes(key), as_bytes(value)))

    async def delete(self, key: str | bytes) -> bool:
        """Deletes `key` if the lock is still held. Returns whether it existed. Errors are those of `put`."""
        return await host().run(self._native.delete(as_bytes(key)))

    def txn(self) -> Txn:
        """Reads and writes in one transaction that takes effect only if the lock is still held."""
        return Txn(self._native)

    @property
    def lost(self) -> Event:
        """An event of the loop's library that is set when the lock is lost; never, if it is released in time."""
        if self._lost is None:
            event = host().event()
            self._lost = event
            self.on_lost(lambda _: event.set())
        return self._lost

    def on_lost(self, callback: Callable[[LostReason], object]) -> None:
        """Calls `callback` with the reason, once, on the loop that runs now, if the lock is lost."""
        host().start(self._native.lost(), losses(callback))

    async def __aenter__(self) -> Self:
        """The guard itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it, if that was not done. `LockLost` if it was lost meanwhile, unless the body failed already."""
        if self._native.is_forked():
            return  # The parent's.
        try:
            await self.release()
        except LeaseholdError as failed:
            if self._must_raise(failed, error):
                raise


class Txn(TxnBase):
    """A transaction under a lock; see `Guard.txn`."""

    __slots__ = ()

    async def commit(self) -> Committed:
        """Sends it. Errors are those of `Guard.put`."""
        return Committed(*await host().run(self._guard.txn(self._ops)))

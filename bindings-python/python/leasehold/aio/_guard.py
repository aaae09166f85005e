"""The guards of event loops."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from leasehold._completions import losses
from leasehold._errors import LeaseholdError
from leasehold._guard import GuardBase
from leasehold._txn import TxnBase
from leasehold._values import Committed, as_bytes, span
from leasehold.aio._host import host

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from leasehold._codes import LostReason
    from leasehold._values import Span
    from leasehold.aio._host import Event, Host


class Guard(GuardBase):
    """A lock that is held by a task, or by whoever has this object. Release it, or use it with `async with`."""

    __slots__ = ()

    _lost: WeakKeyDictionary[Host, Event] | None

    async def release(self) -> None:
        """Releases the lock and waits until etcd has confirmed that; errors are those of `leasehold.Guard.release`.

        Cancelled, it goes on in the background.
        """
        await host().run(self._native.release())

    async def extend(self, seconds: Span) -> None:
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
        """An event of the running loop that is set when the lock is lost; never, if it is released in time."""
        here = host()
        if self._lost is None:
            self._lost = WeakKeyDictionary()
        event = self._lost.get(here)
        if event is None:
            told = self._lost[here] = event = here.event()
            here.start(self._native.lost(), losses(lambda _: told.set()))
        return event

    def on_lost(self, callback: Callable[[LostReason], object]) -> None:
        """Calls `callback` with the reason, once, on the loop that runs now and in this context, if the lock is lost."""
        host().start(self._native.lost(), losses(callback, contextvars.copy_context()))

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


class Leadership(Guard):
    """A leadership: the guard of whoever was elected. `release` resigns."""

    __slots__ = ()

    async def proclaim(self, value: str | bytes) -> None:
        """Says something else to everybody who asks or observes; see `leasehold.Leadership.proclaim`."""
        await host().run(self._native.proclaim(as_bytes(value)))


class Txn(TxnBase):
    """A transaction under a lock; see `Guard.txn`."""

    __slots__ = ()

    async def commit(self) -> Committed:
        """Sends it. Errors are those of `Guard.put`."""
        return Committed(*await host().run(self._guard.txn(self._ops)))

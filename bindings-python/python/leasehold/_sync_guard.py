"""The guards of threads: every operation blocks, without the GIL, and answers Ctrl-C."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasehold import _dispatch
from leasehold._completions import losses
from leasehold._errors import LeaseholdError
from leasehold._green import wait
from leasehold._guard import GuardBase
from leasehold._txn import TxnBase
from leasehold._values import Committed, as_bytes, span

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from leasehold._codes import LostReason
    from leasehold._values import Span


class Guard(GuardBase):
    """A lock that is held by a thread, or by whoever has this object. Release it, or use it with `with`."""

    __slots__ = ()

    _lost: threading.Event | None

    def release(self) -> None:
        """Releases the lock and waits until etcd has confirmed that.

        Raises:
            LockLost: it was lost before: somebody else may have had it meanwhile.
            NotHeld: it was released before.
            ForkedError: it belongs to the parent process, which still holds it.
            Unavailable, DeadlineExceeded: etcd could not be asked. It is released here, and there in the background.
        """
        wait(self._native.release())

    def extend(self, seconds: Span) -> None:
        """Makes the hold last at least so long from now: 2 s to 30 days. For a hold that is renewed, a renewal at once.

        Raises:
            InvalidArgument, LockLost, DeadlineExceeded, NotHeld, ForkedError: it was not extended, for this reason.
        """
        wait(self._native.extend(span(seconds, "the span")))

    def put(self, key: str | bytes, value: str | bytes) -> int:
        """Writes `value` under `key`, below the client's namespace, if the lock is still held. Returns the revision.

        Raises:
            LockLost, NotHeld, ForkedError: nothing was written.
            Unavailable, DeadlineExceeded: it may or may not have been written. It is not repeated.
        """
        return wait(self._native.put(as_bytes(key), as_bytes(value)))

    def delete(self, key: str | bytes) -> bool:
        """Deletes `key` if the lock is still held. Returns whether it existed. Errors are those of `put`."""
        return wait(self._native.delete(as_bytes(key)))

    def txn(self) -> Txn:
        """Reads and writes in one transaction that takes effect only if the lock is still held.

        >>> import leasehold
        >>> client = leasehold.Client("memory://")
        >>> with client.lock("/lock/a") as guard:
        ...     guard.txn().put("/x", "1").get("/x").commit().values
        (b'1',)
        """
        return Txn(self._native)

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lock is lost; never, if it is released in time."""
        if self._lost is None:
            event = threading.Event()
            self._lost = event
            self.on_lost(lambda _: event.set())
        return self._lost

    def on_lost(self, callback: Callable[[LostReason], object]) -> None:
        """Calls `callback` with the reason, once, if the lock is lost, on the thread for callbacks: it should be short."""
        _dispatch.start(self._native.lost(), losses(callback))

    def __enter__(self) -> Self:
        """The guard itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it, if that was not done. `LockLost` if it was lost meanwhile, unless the body failed already."""
        if self._native.is_forked():
            return  # The parent's.
        try:
            self.release()
        except LeaseholdError as failed:
            if self._must_raise(failed, error):
                raise


class Leadership(Guard):
    """A leadership: the guard of whoever was elected. `release` resigns."""

    __slots__ = ()

    def proclaim(self, value: str | bytes) -> None:
        """Says something else to everybody who asks or observes: up to 1,500,000 bytes; keep it small.

        Raises:
            LockLost, NotHeld, ForkedError: it leads no more; nothing was proclaimed.
            InvalidArgument: the value is too long.
            Unavailable, DeadlineExceeded: it may or may not have been proclaimed.
        """
        wait(self._native.proclaim(as_bytes(value)))


class Txn(TxnBase):
    """A transaction under a lock; see `Guard.txn`."""

    __slots__ = ()

    def commit(self) -> Committed:
        """Sends it. Errors are those of `Guard.put`."""
        return Committed(*wait(self._guard.txn(self._ops)))

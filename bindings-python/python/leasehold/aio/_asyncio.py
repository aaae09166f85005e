"""Operations on loops of asyncio, and of others with its interface (uvloop)."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, TypeVar, cast

from leasehold import _native
from leasehold._process import after_fork

if TYPE_CHECKING:
    from leasehold._completions import Handler
    from leasehold.aio._host import Canceller, Event

T = TypeVar("T")

# Not the loops' own: a loop that is forgotten takes its queue along, and guards that nobody took with it.
_hosts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Host] = weakref.WeakKeyDictionary()


def current() -> Host:
    """The host of the running loop."""
    loop = asyncio.get_running_loop()
    host = _hosts.get(loop)
    if host is None:
        for other in [other for other in _hosts if other.is_closed()]:
            del _hosts[other]
        host = _hosts[loop] = Host(loop)
    return host


class Host:
    """One loop's queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the queue's file descriptor for as long as the loop lives."""
        self._queue = _native.Queue(has_fd=True)
        loop.add_reader(cast("int", self._queue.fd), self._queue.drain, _complain)

    def run(self, call: _native.Call[T]) -> _native.Future[T]:
        """See `_host.Host`."""
        return call.future(self._queue, asyncio.get_running_loop())

    def start(self, call: _native.Call[object], handler: Handler) -> int:
        """See `_host.Host`."""
        return call.start(self._queue, handler)

    def task(self) -> object:
        """See `_host.Host`."""
        return asyncio.current_task()

    def event(self) -> Event:
        """See `_host.Host`."""
        return asyncio.Event()

    def canceller(self) -> Canceller:
        """See `_host.Host`."""
        return _Canceller()


def _complain(failed: Exception) -> None:
    context = {"message": "a callback of leasehold failed", "exception": failed}
    asyncio.get_running_loop().call_exception_handler(context)


class _Canceller:
    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            msg = "a lock that cancels its task needs one: run it in a task"
            raise RuntimeError(msg)
        self._task: asyncio.Task[object] | None = task
        self._has_cancelled = False
        # From Python 3.11 on, tasks count who cancelled them.
        self._before: int = task.cancelling() if hasattr(task, "cancelling") else 0

    def cancel(self) -> None:
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel("the lock was lost")

    def leave(self, error: BaseException | None) -> bool:
        task, self._task = self._task, None
        if task is None or not self._has_cancelled:
            return False
        others = task.uncancel() > self._before if hasattr(task, "uncancel") else False
        return isinstance(error, asyncio.CancelledError) and not others


# The parent's loops and descriptors: its selector shares them with the child, so they are left alone.
after_fork(_hosts.clear)

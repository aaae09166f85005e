"""Operations on loops of asyncio, and of others with its interface (uvloop)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leasehold import _native
from leasehold._completions import is_won, taken
from leasehold._process import after_fork

if TYPE_CHECKING:
    from leasehold._completions import Ended, Handler
    from leasehold._errors import LeaseholdError
    from leasehold._scopes import Owner
    from leasehold.aio._host import Canceller, Event

T = TypeVar("T")

# Not the loops' own: a loop that is forgotten takes its queue along, and guards that nobody took with it.
_hosts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Host] = weakref.WeakKeyDictionary()
# Loops of several threads may be new at the same time.
_making = threading.Lock()


def current() -> Host:
    """The host of the running loop."""
    loop = asyncio.get_running_loop()
    host = _hosts.get(loop)
    if host is None:
        with _making:
            for other in [other for other in _hosts if other.is_closed()]:
                del _hosts[other]
            host = _hosts[loop] = Host(loop)
    return host


class Host:
    """One loop's queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the queue's file descriptor for as long as the loop lives."""
        self._queue = _native.Queue(has_fd=True)
        # In a context of its own: that of the task that happens to be the first would live as long as the loop.
        contextvars.Context().run(loop.add_reader, cast("int", self._queue.fd), self._queue.drain, _complain)

    def run(self, call: _native.Call[T]) -> _native.Future[T]:
        """See `_host.Host`."""
        return call.future(self._queue, asyncio.get_running_loop())

    async def settle(self, call: _native.Call[_native.Guard]) -> _native.Guard:
        """See `_host.Host`. Cancelled again, it waits no more."""
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

        def complete(value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
            ended.set_result((value, error))

        operation = self.start(call, complete)
        try:
            await asyncio.wait([ended])
        except BaseException:
            _native.cancel(operation)
            await asyncio.wait([ended])
            if is_won(ended.result()):
                await self.run(taken(ended.result()).release())
            raise
        return taken(ended.result())

    def start(self, call: _native.Call[object], handler: Handler) -> int:
        """See `_host.Host`."""
        return call.start(self._queue, handler)

    def task(self) -> Owner:
        """See `_host.Host`."""
        return _Task()

    def event(self) -> Event:
        """See `_host.Host`."""
        return asyncio.Event()

    def canceller(self) -> Canceller:
        """See `_host.Host`."""
        return _Canceller()


def _complain(failed: Exception) -> None:
    context = {"message": "a callback of leasehold failed", "exception": failed}
    asyncio.get_running_loop().call_exception_handler(context)


class _Task:
    """The running task as the owner of blocks."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            msg = "a block of a lock belongs to a task: run it in one"
            raise RuntimeError(msg)
        self._task = task

    def key(self) -> object:
        return self._task

    def depth(self) -> int:
        return 0

    def holds_up(self, holder: object, depth: int) -> bool:  # noqa: ARG002 - futures say it, without
        """Whether `holder` awaits it, directly or by `gather`; from Python 3.14 on, in any way."""
        # From the holder down to what it awaits; or, where futures know who awaits them, from this task up.
        return _leads(holder, self._task, "_fut_waiter", "_children") or _leads(
            self._task, holder, "_asyncio_awaited_by"
        )


def _leads(start: object, goal: object, *names: str) -> bool:
    """Whether one gets there by way of these attributes of asyncio's, each of them a future or several."""
    ways: list[Any] = [start]
    seen: list[Any] = []
    while ways:
        one = ways.pop()
        if one is goal:
            return True
        if any(one is other for other in seen):
            continue
        seen.append(one)
        for name in names:
            more: Any = getattr(one, name, None)
            if more is not None:
                ways.extend([more] if asyncio.isfuture(more) else more)
    return False


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
def _forget() -> None:
    global _making  # noqa: PLW0603 - another thread of the parent's may have had it
    _making = threading.Lock()
    _hosts.clear()


after_fork(_forget)

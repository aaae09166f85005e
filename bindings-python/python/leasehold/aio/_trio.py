"""Operations in runs of trio."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import outcome
import trio

from leasehold import _native
from leasehold._completions import is_won, taken
from leasehold._dispatch import complain

if TYPE_CHECKING:
    from leasehold._completions import Ended, Handler
    from leasehold._errors import LeaseholdError
    from leasehold._scopes import Owner
    from leasehold.aio._host import Canceller, Event

T = TypeVar("T")

_host: trio.lowlevel.RunVar[Host] = trio.lowlevel.RunVar("leasehold")


def is_running() -> bool:
    """Whether a task of trio runs."""
    return trio.lowlevel.in_trio_task()


def current() -> Host:
    """The host of this run."""
    try:
        return _host.get()
    except LookupError:
        host = Host()
        _host.set(host)
        trio.lowlevel.spawn_system_task(host.serve, name="leasehold")
        return host


class Host:
    """One run's queue."""

    def __init__(self) -> None:
        """Made inside a run."""
        self._queue = _native.Queue(has_fd=True)

    async def serve(self) -> None:
        """Hands out what completes, until the run ends."""
        fd = cast("int", self._queue.fd)
        try:
            while True:
                await trio.lowlevel.wait_readable(fd)
                try:
                    self._queue.drain(complain)
                except BaseException as failed:  # noqa: BLE001 - a callback's SystemExit would end the whole run
                    complain(failed)
        finally:
            self._queue.close()

    async def run(self, call: _native.Call[T]) -> T:
        """See `_host.Host`."""
        task = trio.lowlevel.current_task()
        waiting = True

        def complete(value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
            if waiting:  # Otherwise cancelled: a guard that came nevertheless has no taker, which releases it.
                trio.lowlevel.reschedule(task, outcome.Value(value) if error is None else outcome.Error(error))

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = False
            _native.cancel(operation)
            return trio.lowlevel.Abort.SUCCEEDED

        operation = self.start(call, complete)
        return cast("T", await trio.lowlevel.wait_task_rescheduled(abort))

    async def settle(self, call: _native.Call[_native.Guard]) -> _native.Guard:
        """See `_host.Host`."""
        is_over, ended = trio.Event(), list["Ended"]()

        def complete(value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
            ended.append((value, error))
            is_over.set()

        operation = self.start(call, complete)
        try:
            await is_over.wait()
        except BaseException:
            _native.cancel(operation)
            with trio.CancelScope(shield=True):
                await is_over.wait()
                if is_won(ended[0]):
                    await self.run(taken(ended[0]).release())
            raise
        return taken(ended[0])

    def start(self, call: _native.Call[object], handler: Handler) -> int:
        """See `_host.Host`."""
        return call.start(self._queue, handler)

    def task(self) -> Owner:
        """See `_host.Host`."""
        return _Task()

    def event(self) -> Event:
        """See `_host.Host`."""
        return trio.Event()

    def canceller(self) -> Canceller:
        """See `_host.Host`."""
        return _Canceller()


class _Task:
    """The running task as the owner of blocks."""

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()

    def key(self) -> object:
        return self._task

    def depth(self) -> int:
        return len(self._task.child_nurseries)

    def holds_up(self, holder: object, depth: int) -> bool:
        """Whether it runs in a nursery that `holder` opened inside of its block."""
        nursery = self._task.parent_nursery
        while nursery is not None:
            if nursery.parent_task is holder:
                return nursery in nursery.parent_task.child_nurseries[depth:]
            nursery = nursery.parent_task.parent_nursery
        return False


class _Canceller:
    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._scope.__enter__()

    def cancel(self) -> None:
        self._scope.cancel()

    def leave(self, error: BaseException | None) -> bool:
        kind, traceback = (None, None) if error is None else (type(error), error.__traceback__)
        return bool(self._scope.__exit__(kind, error, traceback))

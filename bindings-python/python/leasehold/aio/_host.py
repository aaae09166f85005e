"""Event loops: how operations complete on them. One wake-up file descriptor for each loop that runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TypeVar

from leasehold.aio import _asyncio

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from leasehold import _native
    from leasehold._completions import Handler
    from leasehold._scopes import Owner

T = TypeVar("T")


class Event(Protocol):
    """An event of the loop's own library."""

    def is_set(self) -> bool:
        """Whether it has happened."""
        ...

    def set(self) -> object:
        """Makes it happen."""
        ...

    async def wait(self) -> object:
        """Waits until it has happened."""
        ...


class Canceller(Protocol):
    """Cancels what a task does inside a block."""

    def cancel(self) -> None:
        """Cancels it. Nothing once the block is left."""
        ...

    def leave(self, error: BaseException | None) -> bool:
        """Leaves the block. Whether `error` is the cancellation that it asked for."""
        ...


class Host(Protocol):
    """One event loop."""

    def run(self, call: _native.Call[T]) -> Awaitable[T]:
        """Starts an operation and waits for its result. Cancelled, it cancels the operation and does not wait for it."""
        ...

    async def settle(self, call: _native.Call[_native.Guard]) -> _native.Guard:
        """As `run`. Cancelled, it waits until the operation is over, and a lock that was won nevertheless is released."""
        ...

    def start(self, call: _native.Call[object], handler: Handler) -> int:
        """Starts an operation whose results `handler` takes on the loop. Returns its id, for cancelling it."""
        ...

    def task(self) -> Owner:
        """The task that runs."""
        ...

    def event(self) -> Event:
        """An event that is not set."""
        ...

    def canceller(self) -> Canceller:
        """Cancels what the running task does from here on, if it is told to."""
        ...


def host() -> Host:
    """The loop that runs.

    Raises:
        RuntimeError: none does, or one of another library.
    """
    # First: trio may run as a guest inside asyncio's loop. Whoever runs trio has imported it.
    if "trio" in sys.modules:
        from leasehold.aio import _trio  # noqa: PLC0415 - trio is optional

        if _trio.is_running():
            return _trio.current()
    return _asyncio.current()

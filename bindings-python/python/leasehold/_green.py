"""Greenlets: how whoever blocks waits in a program that gevent or eventlet has patched.

There, a thread runs many greenlets, and one that blocks the thread stops them all, often whoever would release the lock. So it
waits through the hub instead, until the file descriptor of a queue of its own is readable.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from leasehold import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold._completions import Handler
    from leasehold._errors import LeaseholdError

T = TypeVar("T")


class Library(Protocol):
    """What is needed of either library."""

    def wait_readable(self, fd: int) -> None:
        """Lets others run until there is something to read."""
        ...

    def spawn(self, function: Callable[..., object], *args: object) -> Callable[[], bool]:
        """Runs it in a greenlet of its own; whether that has not ended."""
        ...

    def here(self) -> object:
        """The greenlet that runs."""
        ...


class _Gevent:
    def __init__(self) -> None:
        # As all that is asked of either library here: neither is typed, and whoever gets here has imported it.
        self._gevent: Any = importlib.import_module("gevent")

    def wait_readable(self, fd: int) -> None:
        hub = self._gevent.get_hub()
        watcher = hub.loop.io(fd, 1)
        try:
            hub.wait(watcher)
        finally:
            watcher.close()

    def spawn(self, function: Callable[..., object], *args: object) -> Callable[[], bool]:
        greenlet = self._gevent.spawn(function, *args)
        return lambda: not greenlet.dead

    def here(self) -> object:
        here: object = self._gevent.getcurrent()
        return here


class _Eventlet:
    def __init__(self) -> None:
        self._eventlet: Any = importlib.import_module("eventlet")

    def wait_readable(self, fd: int) -> None:
        self._eventlet.hubs.trampoline(fd, read=True)

    def spawn(self, function: Callable[..., object], *args: object) -> Callable[[], bool]:
        greenlet = self._eventlet.spawn(function, *args)
        return lambda: not greenlet.dead

    def here(self) -> object:
        here: object = self._eventlet.getcurrent()
        return here


_libraries: dict[type[Library], Library] = {}


def library() -> Library | None:
    """The library that has patched what blocks, if one has. That may happen at any time."""
    gevent: Any = sys.modules.get("gevent.monkey")
    if gevent is not None and (gevent.is_module_patched("socket") or gevent.is_module_patched("threading")):
        return _the(_Gevent)
    eventlet: Any = sys.modules.get("eventlet.patcher")
    if eventlet is not None and (eventlet.is_monkey_patched("socket") or eventlet.is_monkey_patched("thread")):
        return _the(_Eventlet)
    return None


def _the(kind: type[Library]) -> Library:
    return _libraries.get(kind) or _libraries.setdefault(kind, kind())


def wait(call: _native.Call[T]) -> T:
    """Starts an operation and waits for its result, which may be raised. Interrupted, it cancels the operation."""
    green = library()
    return call.block() if green is None else _wait_through(green, call)


class Server:
    """Hands out what completes in a greenlet, where the callbacks may wait."""

    def __init__(self, green: Library, complain: Callable[[BaseException], object]) -> None:
        """`complain` hears of callbacks that failed."""
        self._green = green
        self._complain = complain
        self._came: deque[Callable[[], object]] = deque()

    def later(self, handler: Handler) -> Handler:
        """What notes a result for `handler`: no greenlet gives way to another in the middle of the native module."""
        return lambda value, error, is_last: self._came.append(lambda: handler(value, error, is_last))

    def serve(self, queue: _native.Queue) -> None:
        """For as long as this process is the one that asked for it."""
        process, fd = os.getpid(), cast("int", queue.fd)
        while True:
            self._green.wait_readable(fd)
            if os.getpid() != process:
                return
            queue.drain(self._complain)
            while self._came:
                handle = self._came.popleft()
                try:
                    handle()
                except BaseException as failed:  # noqa: BLE001 - the next callbacks are to be told, too
                    self._complain(failed)


def _wait_through(green: Library, call: _native.Call[T]) -> T:
    queue = _native.Queue(has_fd=True)
    fd = cast("int", queue.fd)
    ended: list[tuple[object, LeaseholdError | None]] = []
    try:
        call.start(queue, lambda value, error, _is_last: ended.append((value, error)))
        while not ended:
            green.wait_readable(fd)
            queue.drain(nothing_fails)
    finally:
        # Cancels the operation if it is not over. A guard that comes nevertheless has no taker, which releases it.
        queue.close()
    value, error = ended.pop()
    if error is not None:
        raise error
    return cast("T", value)


def nothing_fails(failed: BaseException) -> None:
    """For queues whose results only we take."""
    raise failed

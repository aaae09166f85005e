"""The one thread that runs callbacks and hands on log records. Python's own; started when there is something for it.

The threads that renew leases never enter Python: what they have to say waits in a queue until this thread takes it.
"""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING, Protocol, cast

from leasehold import _native
from leasehold._process import after_fork, before_exit

if TYPE_CHECKING:
    from leasehold._errors import LeaseholdError

_MOST = 64
_HOUR_MS = 3_600_000


class Handler(Protocol):
    """Takes one result of an operation: a value, or the error in its place, and whether it is the last."""

    def __call__(self, value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        """Runs on the callback thread."""


class _Dispatcher:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tags = itertools.count(1)
        self._handlers: dict[int, Handler] = {}
        self._queue: _native.Queue | None = None
        self._thread: threading.Thread | None = None

    def expect(self, handler: Handler) -> tuple[_native.Queue, int]:
        """Where the results go that `handler` takes."""
        with self._lock:
            if self._queue is None:
                queue = _native.Queue(False)
                thread = threading.Thread(target=self._run, args=(queue,), name="leasehold", daemon=True)
                thread.start()
                # Last: Ctrl-C may come in between.
                self._queue, self._thread = queue, thread
            tag = next(self._tags)
            self._handlers[tag] = handler
            return self._queue, tag

    def end(self) -> None:
        """Ends the thread, unless it is the caller or busy with a callback that does not end."""
        with self._lock:
            queue, thread = self._queue, self._thread
        if queue is not None and thread is not None:
            queue.close()
            if thread is not threading.current_thread():
                thread.join(1)

    def _run(self, queue: _native.Queue) -> None:
        while self._serve(queue):
            pass

    def _serve(self, queue: _native.Queue) -> bool:
        # A function of its own: what it took must not live on, a guard least of all, while it waits for more.
        arrivals = queue.take(_MOST, _HOUR_MS)
        for tag, is_last, value, error in arrivals or ():
            handler = self._handlers.pop(tag) if is_last else self._handlers[tag]
            try:
                handler(value, cast("LeaseholdError | None", error), is_last)
            except Exception:
                logging.getLogger("leasehold").exception("a callback failed")
        return arrivals is not None


_dispatcher = _Dispatcher()


def start(call: _native.Call[object], handler: Handler) -> int:
    """Starts `call`; `handler` takes its results on the callback thread. Returns its id, for cancelling it."""
    queue, tag = _dispatcher.expect(handler)
    return call.start(queue, tag)


def listen_to_logs(level: int, handler: Handler) -> None:
    """Has `handler` take the core's log records of `level` and worse."""
    queue, tag = _dispatcher.expect(handler)
    _native.listen_to_logs(level, queue, tag)


def _forget() -> None:
    global _dispatcher  # noqa: PLW0603 - it belongs to the process
    _dispatcher = _Dispatcher()


def _end() -> None:
    _dispatcher.end()


after_fork(_forget)
before_exit(_end)

"""The one thread that runs callbacks and hands on log records. Python's own; started when there is something for it.

The threads that renew leases never enter Python: what they have to say waits in a queue until this thread takes it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from leasehold import _native
from leasehold._process import after_fork, before_exit

if TYPE_CHECKING:
    from leasehold._completions import Handler

_HOUR_MS = 3_600_000


class _Dispatcher:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: _native.Queue | None = None
        self._thread: threading.Thread | None = None

    def queue(self) -> _native.Queue:
        """What the thread hands out."""
        with self._lock:
            if self._queue is None:
                queue = _native.Queue(has_fd=False)
                thread = threading.Thread(target=_serve, args=(queue,), name="leasehold", daemon=True)
                thread.start()
                # Last: Ctrl-C may come in between.
                self._queue, self._thread = queue, thread
            return self._queue

    def end(self) -> None:
        """Ends the thread, unless it is the caller or busy with a callback that does not end."""
        with self._lock:
            queue, thread = self._queue, self._thread
        if queue is not None and thread is not None:
            queue.close()
            if thread is not threading.current_thread():
                thread.join(1)


_dispatcher = _Dispatcher()


def complain(failed: Exception) -> None:
    """Writes of a callback that failed to the log."""
    logging.getLogger("leasehold").error("a callback failed", exc_info=failed)


def start(call: _native.Call[object], handler: Handler) -> int:
    """Starts `call`; `handler` takes its results on the callback thread. Returns its id, for cancelling it."""
    return call.start(_dispatcher.queue(), handler)


def listen_to_logs(level: int, handler: Handler) -> None:
    """Has `handler` take the core's log records of `level` and worse."""
    _native.listen_to_logs(level, _dispatcher.queue(), handler)


def _serve(queue: _native.Queue) -> None:
    while queue.take(_HOUR_MS, complain):
        pass


def _forget() -> None:
    global _dispatcher  # noqa: PLW0603 - it belongs to the process
    _dispatcher = _Dispatcher()


def _end() -> None:
    _dispatcher.end()


after_fork(_forget)
before_exit(_end)

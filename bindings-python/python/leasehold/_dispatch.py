"""The one thread that runs callbacks and hands on log records. Python's own; started when there is something for it.

The threads that renew leases never enter Python: what they have to say waits in a queue until this thread takes it. In a program
of greenlets it is a greenlet.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from leasehold import _green, _native
from leasehold._process import after_fork, before_exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold._completions import Handler

_HOUR_MS = 3_600_000


class _Dispatcher:
    def __init__(self, green: _green.Library | None) -> None:
        self._green = green
        self._server = None if green is None else _green.Server(green, complain)
        self._lock = threading.Lock()
        self._queue: _native.Queue | None = None
        self._thread: threading.Thread | None = None
        self._is_alive: Callable[[], bool] = lambda: False

    def queue(self) -> _native.Queue:
        """What the thread hands out. One that has ended is replaced, and nothing of what waits is lost."""
        with self._lock:
            if self._queue is None:
                self._queue = _native.Queue(has_fd=self._green is not None)
            if not self._is_alive():
                self._start(self._queue)
            return self._queue

    def handler(self, handler: Handler) -> Handler:
        """What is to be handed out in place of `handler`."""
        return handler if self._server is None else self._server.later(handler)

    def _start(self, queue: _native.Queue) -> None:
        if self._green is not None and self._server is not None:
            self._is_alive = self._green.spawn(self._server.serve, queue)
            return
        self._thread = threading.Thread(target=_serve, args=(queue,), name="leasehold", daemon=True)
        # Before it starts: Ctrl-C may come meanwhile.
        self._is_alive = self._thread.is_alive
        self._thread.start()

    def end(self) -> None:
        """Ends the thread, unless it is the caller or busy with a callback that does not end."""
        with self._lock:
            queue, thread = self._queue, self._thread
        if queue is not None:
            queue.close()
        # Where there are greenlets by now, waiting for it would run them.
        if thread is not None and thread is not threading.current_thread() and _green.library() is None:
            thread.join(1)


# By the library of greenlets, if one is used: a program may be patched after the first use.
_dispatchers: dict[_green.Library | None, _Dispatcher] = {}


def _dispatcher() -> _Dispatcher:
    green = _green.library()
    return _dispatchers.get(green) or _dispatchers.setdefault(green, _Dispatcher(green))


def complain(failed: BaseException) -> None:
    """Writes of a callback that failed to the log; or, where that fails as well, to the standard error."""
    try:
        logging.getLogger("leasehold").error("a callback failed", exc_info=failed)
    except BaseException:  # noqa: BLE001 - whatever a filter or handler of the user's raises
        with contextlib.suppress(BaseException):
            traceback.print_exception(type(failed), failed, failed.__traceback__, file=sys.stderr)


def start(call: _native.Call[object], handler: Handler) -> int:
    """Starts `call`; `handler` takes its results on the callback thread. Returns its id, for cancelling it."""
    dispatcher = _dispatcher()
    return call.start(dispatcher.queue(), dispatcher.handler(handler))


def listen_to_logs(level: int, handler: Handler) -> None:
    """Has `handler` take the core's log records of `level` and worse."""
    dispatcher = _dispatcher()
    _native.listen_to_logs(level, dispatcher.queue(), dispatcher.handler(handler))


def _serve(queue: _native.Queue) -> None:
    is_open = True
    while is_open:
        try:
            is_open = queue.take(_HOUR_MS, complain)
        except BaseException as failed:  # noqa: BLE001 - a callback's SystemExit: the next ones are to be told, too
            complain(failed)


def _end() -> None:
    for dispatcher in list(_dispatchers.values()):
        dispatcher.end()


after_fork(_dispatchers.clear)
before_exit(_end)

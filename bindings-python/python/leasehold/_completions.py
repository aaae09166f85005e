"""What operations bring: a queue of it, and who takes what."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol, cast

from leasehold import _native
from leasehold._errors import LostReason
from leasehold._values import SessionState, session_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasehold._errors import LeaseholdError

# How many are handed out before a loop gets its turn.
_MOST = 256


class Handler(Protocol):
    """Takes one result of an operation: a value, or the error in its place, and whether it is the last."""

    def __call__(self, value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        """Runs on the loop or thread that the queue belongs to."""


class Completions:
    """The queue of one loop or thread, and the handlers of the operations that complete into it."""

    def __init__(self, complain: Callable[[Exception], object], *, has_fd: bool) -> None:
        """`complain` hears of callbacks that failed: they are the user's, and the others must be served."""
        self.queue = _native.Queue(has_fd)
        self._complain = complain
        self._tags = itertools.count(1)
        self._handlers: dict[int, Handler] = {}

    def expect(self, handler: Handler) -> int:
        """The tag of the results that `handler` takes."""
        tag = next(self._tags)
        self._handlers[tag] = handler
        return tag

    def start(self, call: _native.Call[object], handler: Handler) -> int:
        """Starts an operation whose results `handler` takes. Returns its id, for cancelling it."""
        return call.start(self.queue, self.expect(handler))

    def drain(self) -> None:
        """Hands out what is there, for a loop."""
        self._hand_out(self.queue.drain(_MOST))

    def take(self, limit_ms: int) -> bool:
        """Hands out what is there or comes in time, for a thread. False when the queue is closed."""
        arrivals = self.queue.take(_MOST, limit_ms)
        self._hand_out(arrivals or ())
        return arrivals is not None

    def _hand_out(self, arrivals: Iterable[tuple[int, bool, object, BaseException | None]]) -> None:
        for tag, is_last, value, error in arrivals:
            handler = self._handlers.pop(tag) if is_last else self._handlers[tag]
            try:
                handler(value, cast("LeaseholdError | None", error), is_last)
            except Exception as failed:  # noqa: BLE001 - whatever it is
                self._complain(failed)


def losses(callback: Callable[[LostReason], object]) -> Handler:
    """Has `callback` told of the loss of a guard."""

    def handle(value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        if error is None and value is not None:
            callback(LostReason(cast("int", value)))

    return handle


def states(callback: Callable[[SessionState], object]) -> Handler:
    """Has `callback` told of every state of a session."""

    def handle(value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        if error is None and not is_last:
            callback(session_state(value))

    return handle

"""What operations bring, for callbacks of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from leasehold._codes import LostReason
from leasehold._values import SessionState, session_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from leasehold import _native
    from leasehold._errors import LeaseholdError

T = TypeVar("T")


class Handler(Protocol):
    """Takes one result of an operation: a value, or the error in its place, and whether it is the last."""

    def __call__(self, value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        """Runs on the loop or thread that the queue belongs to."""


Ended: TypeAlias = "tuple[object, LeaseholdError | None]"
"""What an acquire ended with: a guard, or the error in its place."""


def is_won(ended: Ended) -> bool:
    """Whether it brought a guard."""
    return ended[1] is None


def taken(ended: Ended) -> _native.Guard:
    """The guard that it brought, or raises the error."""
    value, error = ended
    if error is not None:
        raise error
    return cast("_native.Guard", value)


def losses(callback: Callable[[LostReason], object], context: Context | None = None) -> Handler:
    """Has `callback` told of the loss of a guard, in `context` if there is one."""

    def handle(value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        if error is None and value is not None:
            _call(context, callback, LostReason(cast("int", value)))

    return handle


def states(callback: Callable[[SessionState], object], context: Context | None = None) -> Handler:
    """Has `callback` told of every state of a session, in `context` if there is one."""

    def handle(value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        if error is None and not is_last:
            _call(context, callback, session_state(value))

    return handle


def _call(context: Context | None, callback: Callable[[T], object], news: T) -> None:
    if context is None:
        callback(news)
    else:
        context.run(callback, news)

"""What concerns the whole process: forks, and its end."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from leasehold import _native
from leasehold._values import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULT_LIMIT = 2.0

_exit_limit: float | None = _DEFAULT_LIMIT
_in_child: list[Callable[[], None]] = []
_at_exit: list[Callable[[], None]] = []


def after_fork(forget: Callable[[], None]) -> None:
    """Calls `forget` in every child of a fork: what threads of the parent used is of no use there."""
    _in_child.append(forget)


def before_exit(end: Callable[[], None]) -> None:
    """Calls `end` when the interpreter ends, after what is held was released."""
    _at_exit.append(end)


def release_at_exit(timeout: float | None = _DEFAULT_LIMIT) -> None:
    """Says how long the end of the interpreter may be held up by releasing what is still held.

    Args:
        timeout: In seconds, from 0 up; 2 if nothing was said. `None` releases nothing: the locks end with their leases, as after
            a crash.

    Raises:
        InvalidArgument: the timeout is no such number.
    """
    global _exit_limit  # noqa: PLW0603 - it belongs to the process
    milliseconds(timeout, "the timeout")
    _exit_limit = timeout


def _forked() -> None:
    for forget in _in_child:
        forget()


def _exit() -> None:
    limit = milliseconds(_exit_limit, "the timeout")
    if limit is not None:
        _native.close_all(limit)
    for end in _at_exit:
        end()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)

"""What concerns the whole process: forks, and its end."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from leasehold import _native
from leasehold._values import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULT_LIMIT = 2.0

# Libraries whose child processes end without the handlers of `atexit`, and with their own: Celery's is billiard.
_LIBRARIES = ("multiprocessing.util", "billiard.util")
# After all that users have told them to do at the end.
_LAST = -100

_exit_limit: float | None = _DEFAULT_LIMIT
_in_child: list[Callable[[], None]] = []
_at_exit: list[Callable[[], None]] = []
_has_ended = False


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
    global _has_ended  # noqa: PLW0603 - it belongs to the process
    _has_ended = False
    for forget in _in_child:
        forget()
    # Here, and not before: one may have been imported since, and a child asks its library only after this.
    _watch_libraries()


def _watch_libraries() -> None:
    for name in _LIBRARIES:
        util: Any = sys.modules.get(name)
        if util is not None:
            finalize = functools.partial(util.Finalize, None, _exit, exitpriority=_LAST)
            # In a child that is one already, and in one that forgets what its parent has registered.
            finalize()
            util.register_after_fork(_exit, functools.partial(_call, finalize))


def _call(finalize: Callable[[], object], _: object) -> None:
    finalize()


def _exit() -> None:
    global _has_ended  # noqa: PLW0603 - it belongs to the process
    if _has_ended:
        return
    _has_ended = True
    limit = milliseconds(_exit_limit, "the timeout")
    if limit is not None:
        _native.close_all(limit)
    for end in _at_exit:
        end()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
_watch_libraries()

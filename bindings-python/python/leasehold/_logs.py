"""The core's log records, handed to `logging.getLogger("leasehold")`.

They are read by the thread that runs callbacks. The core is asked for no more than the logger lets through, and for nothing,
without any thread, where it is switched off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from leasehold import _dispatch, _native
from leasehold._errors import Unsupported
from leasehold._process import after_fork

if TYPE_CHECKING:
    from leasehold._errors import LeaseholdError

logger = logging.getLogger("leasehold")

# By the core's numbers for them.
_LEVELS = (logging.CRITICAL + 1, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 5)

# The level of the logger that the core was last told of.
_attended: int | None = None


def attend() -> None:
    """Makes the core tell what the logger lets through, if that has changed."""
    global _attended  # noqa: PLW0603 - there is one logger
    level = logger.getEffectiveLevel()
    if level == _attended:
        return
    _attended = level
    wanted = sum(1 for at in _LEVELS[1:] if logger.isEnabledFor(at))
    if wanted == 0:
        _native.stop_logs()
        return
    try:
        _dispatch.listen_to_logs(wanted, _record)
    except Unsupported:
        logger.debug("the program collects the core's records itself")


def _record(value: object, error: LeaseholdError | None, is_last: bool) -> None:
    if error is None and not is_last:
        level, target, message = cast("tuple[int, str, str]", value)
        logging.getLogger(target.replace("::", ".")).log(_LEVELS[level], "%s", message)


def _forget() -> None:
    global _attended  # noqa: PLW0603 - there is one logger
    _attended = None


after_fork(_forget)

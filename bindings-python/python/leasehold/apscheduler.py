"""Jobs that many schedulers start and one runs: for APScheduler, cron, and whatever else starts the same at the same time.

A lock alone is not enough: the scheduler whose clock is a little late finds it free again, and runs the job a second time. So the
turn that was run is noted, by a write that only the owner of the lock can make.
"""

from __future__ import annotations

import functools
import inspect
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leasehold import aio
from leasehold._busy import unless_busy, unless_busy_async
from leasehold._errors import InvalidArgument
from leasehold._values import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold._sync import Client
    from leasehold._values import Committed, Span

F = TypeVar("F", bound="Callable[..., Any]")

__all__ = ["once"]


def once(client: Client | aio.Client, name: str, every: Span) -> Callable[[F], F]:
    """Runs a function, or a coroutine function, at most once in each period of `every`, wherever it is called.

    Whoever comes while somebody is at it, or later in a period that had its run, gets `None` and runs nothing. A run that fails,
    or whose process dies, is not repeated before the next period. One that takes longer than a period makes others skip theirs.

    Args:
        client: Of event loops for coroutine functions.
        name: Of the lock; the period of the last run is noted under `<name>:last`.
        every: How often it may run, in seconds: that of the trigger. Periods are counted from 1970 by the clock of each machine.

    Raises:
        InvalidArgument: the client is not of the function's kind, or the period is none.
    """
    period = span(every, "the period") / 1000
    if period == 0:
        msg = "the period must be longer than zero"
        raise InvalidArgument(msg)
    mark = f"{name}:last"

    def turn() -> int:
        return int(time.time() // period)

    def decorate(job: F) -> F:
        if inspect.iscoroutinefunction(job) != isinstance(client, aio.Client):
            msg = "a coroutine function needs a client of leasehold.aio, and any other function one of leasehold"
            raise InvalidArgument(msg)

        @functools.wraps(job)
        def run(*args: object, **kwargs: object) -> object:
            with unless_busy(cast("Client", client).lock(name, timeout=0)) as guard:
                now = turn()
                if guard is None or _is_done(guard.txn().get(mark).commit(), now):
                    return None
                guard.put(mark, str(now))
                return job(*args, **kwargs)

        @functools.wraps(job)
        async def run_async(*args: object, **kwargs: object) -> object:
            async with unless_busy_async(cast("aio.Client", client).lock(name, timeout=0)) as guard:
                now = turn()
                if guard is None or _is_done(await guard.txn().get(mark).commit(), now):
                    return None
                await guard.put(mark, str(now))
                return await job(*args, **kwargs)

        return cast("F", run_async if isinstance(client, aio.Client) else run)

    return decorate


def _is_done(read: Committed, now: int) -> bool:
    """Whether this turn, or the next one by a clock that is a little ahead, had its run. What is further off, no clock says."""
    noted = (read.values[0] or b"").decode(errors="replace")
    return noted in (str(now), str(now + 1))

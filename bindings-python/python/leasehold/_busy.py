"""What the helpers for frameworks share: a block that says whether it has the lock, instead of failing without it."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from leasehold._errors import LockTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from leasehold import aio
    from leasehold._sync_guard import Guard
    from leasehold._sync_lock import Locking


@contextmanager
def unless_busy(lock: Locking) -> Generator[Guard | None]:
    """`with lock`, which is `None` where its limit passes. A `LockTimeout` of the body is the body's."""
    with ExitStack() as block:
        guard = None
        with suppress(LockTimeout):
            guard = block.enter_context(lock)
        yield guard


@asynccontextmanager
async def unless_busy_async(lock: aio.Locking) -> AsyncGenerator[aio.Guard | None]:
    """As `unless_busy`, for tasks."""
    async with AsyncExitStack() as block:
        guard = None
        with suppress(LockTimeout):
            guard = await block.enter_async_context(lock)
        yield guard

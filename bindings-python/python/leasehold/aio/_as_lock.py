"""The shape of `asyncio.Lock`, for code that is given a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold._errors import LeaseholdError, LockTimeout, NotHeld
from leasehold._guard import native
from leasehold._logs import logger
from leasehold.aio._host import host

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from leasehold.aio._guard import Guard
    from leasehold.aio._lock import Lock


class TaskLock:
    """A lock with the methods of `asyncio.Lock`, made by `Lock.as_lock`.

    Its `release` does not wait, as that of asyncio does not: it goes on in the background, and a loss that it finds goes to the
    log. Leaving a block waits, and raises `LockLost`.
    """

    def __init__(self, lock: Lock) -> None:
        """Made by `Lock.as_lock`."""
        self._lock = lock
        # In the order in which they came; more than one only after a loss.
        self._guards: list[Guard] = []

    async def acquire(self) -> bool:
        """Waits for the lock, within its own limit. Always true.

        Raises:
            LockTimeout: that passed. Otherwise as `leasehold.aio.Lock.acquire`.
        """
        self._guards.append(await self._lock.acquire())
        return True

    def release(self) -> None:
        """Releases it in the background.

        Raises:
            NotHeld: nobody has acquired it here. It is a `RuntimeError`.
        """
        guard = self._pop()
        host().start(native(guard).release(), _logged(guard))

    def locked(self) -> bool:
        """Whether this object holds it. Asks nobody."""
        return any(guard.held for guard in self._guards)

    async def __aenter__(self) -> None:
        """Acquires it."""
        await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it, and waits for that. `LockLost` if it was lost meanwhile, unless the body failed already."""
        await self._pop().__aexit__(kind, error, traceback)

    def _pop(self) -> Guard:
        if not self._guards:
            msg = "cannot release a lock that was not acquired"
            raise NotHeld(msg)
        return self._guards.pop(0)


def _logged(guard: Guard) -> Callable[[object, LeaseholdError | None, bool], None]:
    def told(_value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        if error is not None and not isinstance(error, LockTimeout):
            logger.warning("the release of the lock %r: %s", guard.name, error)

    return told

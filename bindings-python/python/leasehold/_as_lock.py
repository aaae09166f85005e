"""The shape of `threading.Lock` and `threading.RLock`, for code that is given a lock: `acquire` says yes or no."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasehold._errors import LeaseholdError, LockLost, LockTimeout, NotHeld
from leasehold._logs import logger

if TYPE_CHECKING:
    from types import TracebackType

    from leasehold._sync_guard import Guard
    from leasehold._sync_lock import Lock

_MINUS_ONE = -1


class ThreadLock:
    """A lock with the methods of `threading.Lock`, made by `Lock.as_lock`. It holds a guard for each thread that has acquired it.

    What those of `threading` cannot: it can be lost. Then `release` raises `LockLost`, and so does leaving a block. It never says
    yes without the lock.
    """

    def __init__(self, lock: Lock, reentrant: bool) -> None:
        """Made by `Lock.as_lock`."""
        self._lock = lock
        self._reentrant = reentrant
        # By thread, newest last; one that is entered again stands there again.
        self._mine: dict[int, list[Guard]] = {}
        self._changing = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Waits for the lock; whether it came.

        Args:
            blocking: With `False` it is a try.
            timeout: In seconds; -1 is the lock's own limit, or as long as it takes.

        Raises:
            ValueError: a timeout with a try, or another negative one.
            LeaseholdError: as `Lock.acquire`, except that a limit that passes is `False`.
        """
        if not blocking and timeout != _MINUS_ONE:
            msg = "can't specify a timeout for a non-blocking call"
            raise ValueError(msg)
        if timeout < 0 and timeout != _MINUS_ONE:
            msg = "timeout value must be a non-negative number"
            raise ValueError(msg)
        me = threading.get_ident()
        if self._reentrant and (mine := self._mine.get(me)):
            if not mine[-1].held:
                msg = f"the lock {self._lock.name!r} was lost while this thread held it"
                raise LockLost(msg)
            mine.append(mine[-1])
            return True
        try:
            if not blocking:
                guard = self._lock.acquire(0)
            elif timeout == _MINUS_ONE:
                guard = self._lock.acquire()
            else:
                guard = self._lock.acquire(timeout)
        except LockTimeout:
            return False
        with self._changing:
            self._mine.setdefault(me, []).append(guard)
        return True

    def release(self) -> None:
        """Releases what this thread has acquired last; if it has nothing, what the only other one has.

        Raises:
            NotHeld: nobody has acquired it here. It is a `RuntimeError`.
            LockLost: it was lost meanwhile: somebody else may hold it.
        """
        with self._changing:
            guards = self._mine.get(threading.get_ident())
            if not guards and not self._reentrant and len(self._mine) == 1:
                # As with those of threading, anybody may.
                (guards,) = self._mine.values()
            if not guards:
                msg = "cannot release a lock that was not acquired"
                raise NotHeld(msg)
            guard = guards.pop()
            is_last = guard not in guards
            self._mine = {thread: kept for thread, kept in self._mine.items() if kept}
        if is_last:
            guard.release()

    def locked(self) -> bool:
        """Whether anybody has it, here or elsewhere. Asks etcd, unless it is held here."""
        return self.owned() or self._lock.locked()

    def owned(self) -> bool:
        """Whether this object holds it, certainly and now."""
        return self.guard is not None

    @property
    def guard(self) -> Guard | None:
        """The guard that this thread has, or else anybody here: for its token."""
        with self._changing:
            mine = self._mine.get(threading.get_ident(), [])
            guards = [*mine[-1:], *(kept[-1] for kept in self._mine.values())]
        return next((guard for guard in guards if guard.held), None)

    def __enter__(self) -> bool:
        """Acquires it, within the lock's own limit.

        Raises:
            LockTimeout: that passed: the body does not run.
        """
        if not self.acquire():
            msg = f"the lock {self._lock.name!r} was not acquired within its limit"
            raise LockTimeout(msg)
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it. If the body failed, what that raises goes to the log."""
        try:
            self.release()
        except LeaseholdError as failed:
            if error is None:
                raise
            logger.warning("%s", failed)

    def __repr__(self) -> str:
        """For people."""
        state = "held" if self.owned() else "not held"
        return f"<{type(self).__module__}.{type(self).__name__} of {self._lock!r}, {state} here>"

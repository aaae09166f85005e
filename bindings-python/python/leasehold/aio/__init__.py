"""The lock for asyncio and trio: the same names as in `leasehold`, with `await`.

>>> import asyncio
>>> from leasehold import aio
>>> async def main() -> None:
...     async with aio.Client("memory://") as client:  # or "http://127.0.0.1:2379"
...         async with client.lock("/lock/mylock", timeout=5) as guard:
...             assert guard.held  # send guard.token along with what you write
>>> asyncio.run(main())
"""

from leasehold.aio._as_lock import TaskLock
from leasehold.aio._client import Client
from leasehold.aio._election import Election, Observation
from leasehold.aio._guard import Guard, Leadership, Txn
from leasehold.aio._lock import AsyncLockOptions, Lock, Locking, ReadWriteLock, Semaphore, Together, current_guard

__all__ = [
    "AsyncLockOptions",
    "Client",
    "Election",
    "Guard",
    "Leadership",
    "Lock",
    "Locking",
    "Observation",
    "ReadWriteLock",
    "Semaphore",
    "TaskLock",
    "Together",
    "Txn",
    "current_guard",
]

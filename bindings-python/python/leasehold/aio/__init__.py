"""The lock for asyncio and trio: the same names as in `leasehold`, with `await`.

>>> import asyncio
>>> from leasehold import aio
>>> async def main() -> None:
...     async with aio.Client("memory://") as client:  # or "http://127.0.0.1:2379"
...         async with client.lock("/lock/mylock", timeout=5) as guard:
...             assert guard.held  # send guard.token along with what you write
>>> asyncio.run(main())
"""

from leasehold.aio._client import Client, Guard, Lock, Txn

__all__ = ["Client", "Guard", "Lock", "Txn"]

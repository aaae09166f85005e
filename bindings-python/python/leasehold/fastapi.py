"""A dependency of FastAPI: an endpoint runs while a lock is held, named after the request."""

from __future__ import annotations

# FastAPI reads the types of what it calls.
from collections.abc import AsyncIterator, Callable  # noqa: TC003
from typing import TYPE_CHECKING

from fastapi import HTTPException, Request

from leasehold import aio
from leasehold._busy import unless_busy_async

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from leasehold._base import ClientBase

__all__ = ["locked"]


def locked(
    client: ClientBase,
    name: str | Callable[[Request], str],
    *,
    retry_after: int = 1,
    **options: Unpack[aio.AsyncLockOptions],
) -> Callable[[Request], AsyncIterator[aio.Guard]]:
    """For `Depends`: acquires a lock before the endpoint runs, and releases it when FastAPI leaves the dependency.

    An endpoint that takes the guard as `Annotated[aio.Guard, Depends(locked(client, "/lock/document/{document}"))]` can ask for
    its token. Somebody else has the lock? Then it is answered with 423 Locked.

    Args:
        client: Of threads or of event loops.
        name: A template of the parameters of the path, or a function of the request.
        retry_after: What the answer says about when to come again, in seconds.
        options: Those of `aio.Client.lock`. `timeout` is 0 here if it is not given: a try.

    Newer versions of FastAPI leave a dependency after the answer was sent, so what a stream sends is protected, too, and whoever
    reads slowly holds the lock.
    """
    shared = aio.Client.of(client)
    options.setdefault("timeout", 0)

    async def dependency(request: Request) -> AsyncIterator[aio.Guard]:
        made = name.format(**request.path_params) if isinstance(name, str) else name(request)
        async with unless_busy_async(shared.lock(made, **options)) as guard:
            if guard is None:
                raise HTTPException(423, "somebody else is at it", {"Retry-After": str(retry_after)})
            yield guard

    return dependency

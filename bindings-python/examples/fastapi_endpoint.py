"""An endpoint that answers 423 while somebody else is at work on the same document.

uvicorn fastapi_endpoint:app
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, FastAPI

from leasehold import aio
from leasehold.fastapi import locked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

client = aio.Client(os.environ["ETCD_URL"], ttl=15)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Closes the client with the application: what is held is released."""
    async with client:
        yield


app = FastAPI(lifespan=lifespan)
Held = Annotated[aio.Guard, Depends(locked(client, "/lock/document/{document}", timeout=0.5, cancel_on_loss=True))]


@app.post("/documents/{document}")
async def publish(document: str, guard: Held) -> dict[str, int]:
    """Publishes it. A request that is given up, or loses the lock, is cancelled and leaves nothing behind."""
    revision = await guard.put(f"/published/{document}", "1")
    return {"token": guard.token, "revision": revision}

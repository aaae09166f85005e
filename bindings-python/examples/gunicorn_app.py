"""A WSGI application whose workers share the client that was made before they were forked.

gunicorn --preload --workers 2 gunicorn_app:application
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

client = leasehold.Client(os.environ["ETCD_URL"], ttl=15)
patience = float(os.environ.get("PATIENCE", "5"))
client.ping()  # fail at the start, not at the first request; the workers connect anew


def application(environ: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Does its work alone, or says that it is taken."""
    try:
        with client.lock(f"/lock{environ['PATH_INFO']}", timeout=patience) as guard:
            body = {"token": guard.token, "pid": os.getpid()}
    except leasehold.LockTimeout:
        start("423 Locked", [("Content-Type", "text/plain"), ("Retry-After", "5")])
        return [b"somebody else is at it"]
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(body).encode()]

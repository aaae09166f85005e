"""Many workers share an access token that expires: one refreshes it, the others take what it got.

Three things make it right. Look again after acquiring: while you waited, somebody may have done it. Store it fenced: a worker
that was frozen in the middle must not overwrite the token of the one that came after it. And never refresh without the lock.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import leasehold

KEY = "/token"


class AccessToken:
    """A token in etcd that is refreshed by whoever finds it expired, once."""

    def __init__(self, client: leasehold.Client, refresh: Callable[[], tuple[str, float]]) -> None:
        """`refresh` asks the issuer: the new token, and for how many seconds it is good."""
        self._client = client
        self._refresh = refresh
        self._text, self._until = "", 0.0

    def get(self) -> str:
        """A token that is good now."""
        if time.time() < self._until:
            return self._text
        with self._client.lock("/lock/token", timeout=30) as guard:
            (stored,) = guard.txn().get(KEY).commit().values
            if stored is not None:
                self._text, self._until = json.loads(stored)
            if time.time() >= self._until:
                text, seconds = self._refresh()
                until = time.time() + seconds
                guard.put(KEY, json.dumps([text, until]))  # LockLost, and nothing stored, if another came after us
                self._text, self._until = text, until
        return self._text

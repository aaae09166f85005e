"""Transactions that take effect only while their lock is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold._values import as_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold import _native


class TxnBase:
    """Reads and writes, in the order in which they are added. Keys stand below the client's namespace; etcd allows 128."""

    __slots__ = ("_guard", "_ops")

    def __init__(self, guard: _native.Guard) -> None:
        """Transactions come from guards."""
        self._guard = guard
        self._ops: list[tuple[bytes, bytes | None, bool]] = []

    def put(self, key: str | bytes, value: str | bytes) -> Self:
        """Writes `value` under `key`."""
        self._ops.append((as_bytes(key), as_bytes(value), False))
        return self

    def delete(self, key: str | bytes) -> Self:
        """Deletes `key`."""
        self._ops.append((as_bytes(key), None, False))
        return self

    def get(self, key: str | bytes) -> Self:
        """Reads `key`, after the writes that come before it."""
        self._ops.append((as_bytes(key), None, True))
        return self

"""The open `with` blocks of locks: which guard belongs to which block, and who is inside which."""

from __future__ import annotations

from typing import Generic, TypeVar

from leasehold import _native
from leasehold._process import after_fork

G = TypeVar("G")

# Threads or tasks, and the locks whose blocks they are in.
_inside: set[tuple[object, str]] = set()
# A child of a fork waits for its parent there, not for itself.
after_fork(_inside.clear)


class Scopes(Generic[G]):
    """The open blocks of one lock object, by the thread or task that opened them."""

    def __init__(self, place: str, name: str) -> None:
        """`place` is what makes the lock one: its cluster, and its name there."""
        self._place = place
        self._name = name
        self._guards: dict[object, G] = {}

    def check(self, owner: object) -> None:
        """Whether `owner` may wait.

        Raises:
            WouldDeadlock: it is inside a block of the same lock.
        """
        if (owner, self._place) in _inside:
            raise _native.would_deadlock(self._name)

    def open(self, owner: object, guard: G) -> None:
        """Notes that it is in."""
        self._guards[owner] = guard
        _inside.add((owner, self._place))

    def abandon(self, owner: object) -> None:
        """Notes that it did not get in: something was raised on the way, by Ctrl-C at any point of it."""
        self._guards.pop(owner, None)
        _inside.discard((owner, self._place))

    def close(self, owner: object) -> G:
        """The guard of the block that `owner` leaves.

        Frameworks may leave a block in another thread than they entered it in: then it is the only one that is open.
        """
        if owner not in self._guards and len(self._guards) == 1:
            owner = next(iter(self._guards))
        try:
            guard = self._guards.pop(owner)
        except KeyError:
            msg = (
                "left a lock's block in another thread or task than it was entered in; give each its own client.lock(…)"
            )
            raise RuntimeError(msg) from None
        _inside.discard((owner, self._place))
        return guard

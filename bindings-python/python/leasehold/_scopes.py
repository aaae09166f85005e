"""The open `with` blocks of locks: which guard belongs to which block, and who is inside which."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from leasehold import _native
from leasehold._guard import GuardBase
from leasehold._process import after_fork

if TYPE_CHECKING:
    from contextvars import ContextVar

G = TypeVar("G", bound=GuardBase)

# What makes a lock one: its cluster, and its name there.
Place = tuple[str, str]
# What is claimed of it: whether that is shared, or the permits and their limit.
Claim = tuple[bool, "tuple[int, int] | None"]


class Owner(Protocol):
    """Who opens a block: a thread, a greenlet, or a task."""

    def key(self) -> object:
        """What stands for it. Only a weak reference to it is kept."""
        ...

    def depth(self) -> int:
        """How many groups of tasks it has opened and not left."""
        ...

    def holds_up(self, holder: object, depth: int) -> bool:
        """Whether `holder`, which opened a block at that depth, cannot leave it before this one has ended."""
        ...


class Block(Generic[G]):
    """A block that is open."""

    __slots__ = ("claims", "depth", "ends_itself", "guard", "more", "outer", "owner")

    def __init__(
        self, owner: Owner, guard: G, more: object, claims: dict[Place, Claim], ends_itself: bool, outer: G | None
    ) -> None:
        """`more` is kept for whoever leaves it; `outer` is the guard that was the current one before."""
        self.claims = claims
        self.owner = weakref.ref(owner.key())
        self.depth = owner.depth()
        self.guard = guard
        self.more = more
        self.ends_itself = ends_itself
        self.outer = outer


# One that is freed inside of it may leave its block: whatever frees something may free that.
_lock = threading.RLock()
_open: dict[Place, list[Block[GuardBase]]] = {}


class Scopes(Generic[G]):
    """The open blocks of one lock object, by the thread or task that opened them."""

    def __init__(self, claims: dict[Place, Claim], ends_itself: bool, current: ContextVar[G | None]) -> None:
        """`ends_itself` says that a hold is over after its TTL; `current` is the innermost guard of a context."""
        self._claims = claims
        self._ends_itself = ends_itself
        self._current = current
        self._blocks: list[Block[G]] = []

    def check(self, owner: Owner, wait_ms: int | None) -> None:
        """Whether `owner` may wait so long, or without a limit. A try waits for nobody: it is told that the lock is taken.

        Raises:
            WouldDeadlock: it is inside a block of the same lock, or such a block waits for it, and it would wait for ever.
        """
        if wait_ms == 0:
            return
        for place, claim in self._claims.items():
            if place not in _open:
                continue
            with _lock:
                blocks = list(_open.get(place, ()))
            around = [block.claims[place] for block in blocks if _is_around(owner, block, wait_ms is not None)]
            if around and not _fits(claim, around):
                raise _native.would_deadlock(place[1])

    def open(self, owner: Owner, guard: G, more: object = None) -> None:
        """Notes that it is in."""
        block = Block(owner, guard, more, self._claims, self._ends_itself, self._current.get())
        with _lock:
            self._blocks.append(block)
            for place in self._claims:
                _open.setdefault(place, []).append(block)  # type: ignore[arg-type]  # nobody changes the guard
        self._current.set(guard)

    def abandon(self, guard: G | None) -> None:
        """Notes that whoever has this guard is not in any more, or did not get in: by Ctrl-C at any point on the way, say."""
        with _lock:
            for block in [block for block in self._blocks if block.guard is guard]:
                self._remove(block)

    def close(self, owner: Owner) -> tuple[G, object]:
        """The guard of the block that `owner` leaves, and what was kept with it.

        Frameworks may leave a block in another thread than they entered it in: then it is the only one that is open.
        """
        with _lock:
            mine = [block for block in self._blocks if block.owner() is owner.key()]
            if not mine and len(self._blocks) == 1:
                mine = self._blocks[:]
            if not mine:
                msg = (
                    "left a lock's block in another thread or task than it was entered in; "
                    "give each its own client.lock(…)"
                )
                raise RuntimeError(msg)
            block = mine[-1]
            self._remove(block)
        return block.guard, block.more

    def _remove(self, block: Block[G]) -> None:
        if block in self._blocks:
            self._blocks.remove(block)
        for place in self._claims:
            others = _open.get(place, [])
            if block in others:
                others.remove(block)  # type: ignore[arg-type]  # as above
            if not others:
                _open.pop(place, None)
        # Left in another context than it was entered in, there is nothing to go back to.
        if self._current.get() is block.guard:
            self._current.set(block.outer)
            return
        # Left before one that was entered later: that one is not to go back to it.
        for others in _open.values():
            for other in others:
                if other.outer is block.guard:
                    other.outer = block.outer


def _is_around(owner: Owner, block: Block[GuardBase], has_limit: bool) -> bool:
    """Whether what the block holds stays held for as long as `owner` waits."""
    holder = block.owner()
    if holder is None or block.ends_itself:
        return False
    is_around = holder is owner.key() or (not has_limit and owner.holds_up(holder, block.depth))
    return is_around and block.guard.held


def _fits(claim: Claim, others: list[Claim]) -> bool:
    """Whether it can be admitted beside the others. Whether anybody waits between them, nobody can know here."""
    is_shared, permits = claim
    if permits is not None:
        taken = [other[0] for _, other in others if other is not None]
        return len(taken) == len(others) and sum(taken) + permits[0] <= permits[1]
    return is_shared and all(other_is_shared for other_is_shared, _ in others)


def _forget() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent's may have had it
    _lock = threading.RLock()
    # A child of a fork waits for its parent there, not for itself.
    _open.clear()


after_fork(_forget)

"""What a guard says about itself, for the guards of threads and those of event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from leasehold._errors import LeaseholdError, LockLost, NotHeld
from leasehold._logs import logger

if TYPE_CHECKING:
    from leasehold import _native

G = TypeVar("G", bound="GuardBase")


def native(guard: GuardBase) -> _native.Guard:
    """The native half of a guard, for the rest of the package."""
    return guard._native  # pyright: ignore[reportPrivateUsage] - here alone


def claim(guard: G) -> G:
    """Notes that the user has it. The last step of an acquire: Ctrl-C before it releases the lock.

    From then on a guard that is forgotten warns, and stays held: whether the work that it protects is over, nobody knows.
    """
    native(guard).is_claimed = True
    return guard


class GuardBase:
    """A lock that is held. Whoever has the guard is the owner: any thread may use it."""

    __slots__ = ("__weakref__", "_lost", "_native")

    _lost: Any  # The event, of the threads' or the loop's library, once somebody has asked for it.

    def __init__(self, native: _native.Guard) -> None:
        """Guards come from locks. Until the user has it, one that goes away (by Ctrl-C, say) releases its lock."""
        self._native = native
        self._lost = None

    @property
    def name(self) -> str:
        """The name of the lock, as it was asked for; of several the first."""
        return self._native.name

    @property
    def token(self) -> int:
        """The fencing token: greater than that of every earlier owner of the name. Send it along with what you write."""
        return self._native.token

    @property
    def sequence(self) -> int:
        """Tells holds apart that share a token: owners of one place with `local_first` or `linger`; 0 otherwise."""
        return self._native.sequence

    @property
    def key(self) -> str:
        """The key in etcd that stands for this hold, namespace included."""
        return self._native.key

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all names that were acquired together, in the order asked; `key` is the first."""
        return tuple(self._native.keys)

    @property
    def lease(self) -> str:
        """The id of the lease in etcd, in lower-case hexadecimal."""
        return self._native.lease

    @property
    def held(self) -> bool:
        """Whether the lock is certainly still held, by the local clock. Asks nobody; right also after a freeze."""
        return self._native.is_held()

    @property
    def remaining(self) -> float:
        """For how many seconds it is certainly still held if no renewal succeeds from now on; 0 if it is lost."""
        return self._native.remaining()

    def __repr__(self) -> str:
        """For people."""
        state = "released" if self._native.is_released() else "held" if self.held else "lost"
        return f"<{type(self).__module__}.Guard {self.name!r} token={self.token} {state}>"

    def __reduce__(self) -> str:
        """Refuses: a copy would be a second owner."""
        msg = "a guard stays in its process; send its token, or acquire the lock over there"
        raise TypeError(msg)

    def _must_raise(self, failed: LeaseholdError, body: BaseException | None) -> bool:
        """Whether leaving a block, whose body may have failed, raises that its release failed."""
        if isinstance(failed, NotHeld):
            return False  # Released in the body.
        if isinstance(failed, LockLost):
            if body is None:
                return True
            logger.warning("%s", failed)
        else:
            # The lock was held until now, and nobody here holds it any more: for the body all is well.
            logger.warning("the release of the lock %r was not confirmed: %s", self.name, failed)
        return False

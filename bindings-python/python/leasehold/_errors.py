"""What can go wrong: one exception for each error number of the project, under one base."""

from __future__ import annotations

from typing import ClassVar

from leasehold._codes import Code, LostReason


class LeaseholdError(Exception):
    """The base of every error of leasehold. Its text says what was wrong and what to do, and holds no secret."""

    code: ClassVar[Code] = Code.INTERNAL
    """The stable number; its `name` is the stable name."""


class LockTimeout(LeaseholdError, TimeoutError):
    """The wait limit passed and the lock was not acquired."""

    code = Code.NOT_ACQUIRED


class OperationCancelled(LeaseholdError):
    """The operation was cancelled, by something else than the task or thread that waited for it."""

    code = Code.CANCELLED


class LockLost(LeaseholdError):
    """The lock was lost: somebody else may hold it by now. Stop the work that it protects."""

    code = Code.LOST
    reason: LostReason | None = None
    """Why, where that is known."""


class NotHeld(LeaseholdError, RuntimeError):
    """There is no such hold: released before, or nobody has this token."""

    code = Code.NOT_HELD


class WouldDeadlock(LeaseholdError, RuntimeError):
    """A `with` inside a `with` of the same name, in one thread or task, would wait for itself for ever."""

    code = Code.WOULD_DEADLOCK


class InvalidArgument(LeaseholdError, ValueError):
    """An argument or option is outside its range; nothing was done."""

    code = Code.INVALID_ARGUMENT


class ClientClosed(LeaseholdError):
    """The client was closed."""

    code = Code.CLOSED


class ForkedError(LeaseholdError):
    """The guard belongs to the parent of this forked process. Acquire the lock in this process."""

    code = Code.FORKED


class Unavailable(LeaseholdError):
    """No endpoint could be reached."""

    code = Code.UNAVAILABLE


class DeadlineExceeded(LeaseholdError):
    """etcd did not answer within the request timeout; a write may or may not have taken effect."""

    code = Code.DEADLINE_EXCEEDED


class AuthenticationError(LeaseholdError):
    """etcd refused the user, the password or the certificate."""

    code = Code.UNAUTHENTICATED


class PermissionDenied(LeaseholdError):
    """The user's roles do not allow this key."""

    code = Code.PERMISSION_DENIED


class LimitMismatch(LeaseholdError):
    """Contenders of one name disagree about its limit."""

    code = Code.LIMIT_MISMATCH


class Unsupported(LeaseholdError):
    """The server, or this build, cannot do that."""

    code = Code.UNSUPPORTED


class ResourceExhausted(LeaseholdError):
    """etcd is out of space or refuses more requests."""

    code = Code.RESOURCE_EXHAUSTED


class InternalError(LeaseholdError):
    """A bug in leasehold; please report it."""

    code = Code.INTERNAL


_BY_NUMBER: dict[int, type[LeaseholdError]] = {kind.code: kind for kind in LeaseholdError.__subclasses__()}


def from_native(number: int, message: str, reason: int | None) -> LeaseholdError:
    """The exception for an error of the native module, which calls this."""
    error = _BY_NUMBER.get(number, InternalError)(message)
    if isinstance(error, LockLost) and reason is not None:
        error.reason = LostReason(reason)
    return error

"""The numbers of errors, and of reasons for a loss. Written by `make gen` from the core's."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """The stable number of an error: the same in every language, never reused."""

    NOT_ACQUIRED = 10
    """The wait limit passed, or a try found the lock taken."""
    CANCELLED = 11
    """The caller cancelled the operation."""
    LOST = 12
    """The lock was lost: this guard can no longer prove that it holds it."""
    NOT_HELD = 13
    """There is no such hold: released before, or the token is unknown."""
    WOULD_DEADLOCK = 14
    """A scope inside a scope of the same name, in one thread or task."""
    INVALID_ARGUMENT = 20
    """An argument or option is outside its range; nothing was done."""
    CLOSED = 21
    """The client was closed."""
    FORKED = 22
    """The handle belongs to the parent process of a fork."""
    UNAVAILABLE = 30
    """No endpoint could be reached."""
    DEADLINE_EXCEEDED = 31
    """etcd did not answer within the time limit; a write may or may not have taken effect."""
    UNAUTHENTICATED = 32
    """etcd refused the user, the password or the certificate."""
    PERMISSION_DENIED = 33
    """The user's roles do not allow this key."""
    LIMIT_MISMATCH = 34
    """Contenders of one name disagree about its limit."""
    UNSUPPORTED = 35
    """The server, or this build, cannot do that."""
    RESOURCE_EXHAUSTED = 36
    """etcd is out of space or refuses more requests."""
    INTERNAL = 99
    """A bug in leasehold; please report it."""


class LostReason(enum.IntEnum):
    """Why a guard no longer proves that it holds its lock."""

    EXPIRED = 1
    """The lease ran out: no renewal was acknowledged in time."""
    KEY_DELETED = 2
    """Somebody deleted the guard's key while its lease lived."""
    LEASE_REVOKED = 3
    """etcd ended the lease before its time."""
    CLIENT_CLOSED = 4
    """The client was closed while the lock was held."""
    FORKED = 5
    """The guard belongs to the parent process of a fork."""
    STORE_RESTORED = 6
    """etcd went back in time: it was restored from a backup, or lost its data."""

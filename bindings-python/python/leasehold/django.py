"""Locks that outlive the transaction of Django's database that they protect.

A `with` of a lock inside of a transaction releases it before the commit, as in a view with `ATOMIC_REQUESTS`: whoever comes next
reads what was there before. `atomic` releases it afterwards.
"""

from __future__ import annotations

import importlib
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from leasehold import _dispatch
from leasehold._base import insides_of_lock
from leasehold._errors import LeaseholdError, LockLost
from leasehold._guard import native
from leasehold._logs import logger

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold._sync_guard import Guard
    from leasehold._sync_lock import Locking

__all__ = ["atomic"]

# Django is not typed.
_transaction: Any = importlib.import_module("django.db.transaction")


@contextmanager
def atomic(lock: Locking, *, using: str | None = None) -> Generator[Guard]:
    """Acquires `lock`, runs the block in a transaction, and releases it when that is committed or rolled back.

    Inside of a transaction that is open already, `lock` stays held until that one ends, and the block is a savepoint of it, as
    with `django.db.transaction.atomic`. A second block of the same lock in there raises `WouldDeadlock`. Where the database shows
    a transaction what was there when it began (`REPEATABLE READ`), take the lock first. As a decorator it runs a whole function.

    Args:
        lock: Of `leasehold.Client`: `client.lock(…)`, or any other kind.
        using: The database, if it is not the default one.

    Raises:
        LockLost: it was lost in the block, which is rolled back. A loss that is found later goes to the log if the transaction
            is an outer one.
        TransactionManagementError: autocommit is off, so nobody knows when the transaction ends.

    Otherwise as `with lock`.
    """
    connection = _transaction.get_connection(using)
    if connection.in_atomic_block:
        guard = lock.__enter__()
        # Django alone keeps what ends it: what is to be done after a commit is forgotten by a rollback.
        connection.on_commit(_End(lock, guard))
        with _work(guard, using):
            yield guard
    elif connection.get_autocommit():
        with lock as guard, _work(guard, using):
            yield guard
    else:
        msg = "a lock cannot follow a transaction that is managed by hand: autocommit is off"
        raise _transaction.TransactionManagementError(msg)


@contextmanager
def _work(guard: Guard, using: str | None) -> Generator[None]:
    """A transaction, or a savepoint, that is rolled back if the lock is lost meanwhile."""
    with _transaction.atomic(using=using):
        yield
        if not guard.held:
            msg = f"the lock {guard.name!r} was lost in the block, which is rolled back"
            raise LockLost(msg)


class _End:
    """Releases a lock: called after a commit, or freed after a rollback."""

    def __init__(self, lock: Locking, guard: Guard) -> None:
        self._lock, self._guard = lock, guard
        self._freed = weakref.finalize(self, _release_later, lock, guard)
        self._freed.atexit = False

    def __call__(self) -> None:
        if self._freed.detach() is None:
            return
        _leave(self._lock, self._guard)
        try:
            self._guard.release()
        except LeaseholdError as failed:
            logger.warning("after the commit: %s", failed)


def _leave(lock: Locking, guard: Guard) -> None:
    _, _, scopes = insides_of_lock(lock)
    scopes.abandon(guard)


def _release_later(lock: Locking, guard: Guard) -> None:
    """In the background: it may be called in the middle of anything."""

    def told(_value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        if error is not None:
            logger.warning("after the rollback: %s", error)

    _leave(lock, guard)
    _dispatch.start(native(guard).release(), told)

"""The client of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from leasehold import _dispatch, _native
from leasehold._base import ClientBase, How, claims_of
from leasehold._completions import states
from leasehold._green import wait
from leasehold._sync_election import Election
from leasehold._sync_lock import Lock, ReadWriteLock, Semaphore, Together
from leasehold._synchronized import synchronized

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, Unpack

    from leasehold._base import LockOptions
    from leasehold._sync_lock import Locking
    from leasehold._values import SessionState

F = TypeVar("F", bound="Callable[..., Any]")


class Client(ClientBase):
    """A connection to an etcd cluster and the sessions of the locks taken through it. Make one per process and share it.

    It is lazy: making one opens nothing and starts no thread. Threads may share it. In a child of a fork the same object
    goes on working, with a session of its own.

    >>> client = Client("memory://")  # or "http://127.0.0.1:2379"
    >>> with client.lock("/lock/mylock", timeout=5) as guard:
    ...     guard.held
    True
    >>> client.close()
    """

    __slots__ = ()

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock:
        """The lock of this name: 1 to 1,024 bytes of UTF-8 without NUL. Asks nobody; a bad name is told by `acquire`.

        Args:
            name: Compared byte by byte; `/lock/a/b` does not concern `/lock/a`.
            options: `ttl`, `timeout`, `renew`, `requeue`, `local_first`, `linger`: see `leasehold.LockOptions`.

        Raises:
            InvalidArgument: a span is no number from 0 up.
        """
        return Lock(self, [(name, False, None)], How(**options))

    def rwlock(self, name: str, **options: Unpack[LockOptions]) -> ReadWriteLock:
        """The readers-writer lock of this name: `read()` is shared, `write()` is exclusive. Options are those of `lock`.

        >>> client = Client("memory://")
        >>> pages = client.rwlock("/lock/pages")
        >>> with pages.read() as one, pages.read() as another:
        ...     one.held and another.held
        True
        """
        return ReadWriteLock(self, name, How(**options))

    def semaphore(self, name: str, limit: int, *, permits: int = 1, **options: Unpack[LockOptions]) -> Semaphore:
        """The semaphore of this name, which has `limit` permits in all. Options are those of `lock`.

        >>> client = Client("memory://")
        >>> with client.semaphore("/lock/downloads", 10).permits(2) as guard:
        ...     guard.held
        True

        Args:
            name: As of a lock.
            limit: 1 to 2,147,483,647; everybody says the same, or is refused with `LimitMismatch`.
            permits: How many an acquire takes.
            options: As of `lock`.
        """
        return Semaphore(self, name, permits, limit, How(**options))

    def all(self, *locks: str | Locking, **options: Unpack[LockOptions]) -> Together:
        """Several locks at once: names, and locks of this client of any kind, at most 32. Options are those of `lock`.

        Of the locks only their names count, and what they claim of them; how they are acquired is said here.

        >>> client = Client("memory://")
        >>> with client.all("/lock/a", client.rwlock("/lock/b").read(), timeout=5) as guard:
        ...     guard.held
        True

        Raises:
            InvalidArgument: one of them is of another client. Bad names, none, or one twice, are told by `acquire`.
        """
        return Together(self, claims_of(self, locks), How(**options))

    def election(self, name: str, **options: Unpack[LockOptions]) -> Election:
        """The election of this name, which Go's `concurrency.Election` and `etcdctl elect` take part in, too.

        `ttl`, `timeout`, `renew` and `requeue` are those of a candidate, as of `lock`.
        """
        return Election(self, name, How(**options))

    def synchronized(self, name: str | Callable[..., str], **options: Unpack[LockOptions]) -> Callable[[F], F]:
        """Runs a function inside the lock that `name` makes of its arguments: a template such as `"job:{id}"`, or a function.

        What would run later, and so without the lock, is refused: generators, and functions that return awaitables.

        >>> client = Client("memory://")
        >>> @client.synchronized("job:{job_id}", timeout=5)
        ... def work(job_id: int) -> str:
        ...     return f"did {job_id}"
        >>> work(7)
        'did 7'

        Raises:
            InvalidArgument: `name` asks for something that is no parameter of the function, or its body would run later.
        """
        How(**options)  # A mistake is told here.
        return synchronized(lambda made: self.lock(made, **options), name)

    def ping(self) -> None:
        """Asks etcd for a sign of life.

        Raises:
            Unavailable, DeadlineExceeded, AuthenticationError: there is none, for this reason.
        """
        wait(self._native.ping())

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        """Calls `callback` with each change of the session's state, on the thread for callbacks. Call what it returns to end."""
        operation = _dispatch.start(self._native.on_state(), states(callback))

        def end() -> None:
            _native.cancel(operation)

        return end

    def close(self) -> None:
        """Releases everything that this client holds or waits for, and ends it. Twice is no error.

        Guards are lost with `LostReason.CLIENT_CLOSED`, acquires fail with `ClientClosed`. What etcd cannot be told within the
        request timeout ends with its lease.
        """
        wait(self._native.close())

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

"""The client, locks and guards of threads: every operation blocks, without the GIL, and answers Ctrl-C."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leasehold import _dispatch, _native
from leasehold._base import ClientBase, LockBase
from leasehold._completions import losses, states
from leasehold._errors import LeaseholdError, LockTimeout, LostReason
from leasehold._guard import GuardBase, claim
from leasehold._synchronized import synchronized
from leasehold._txn import TxnBase
from leasehold._values import Committed, Contender, SessionState, as_bytes, span

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from leasehold._native import Cancel

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

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        requeue: bool = True,
    ) -> Lock:
        """The lock of this name: 1 to 1,024 bytes of UTF-8 without NUL. Asks nobody; a bad name is told by `acquire`.

        Args:
            name: Compared byte by byte; `/lock/a/b` does not concern `/lock/a`.
            ttl: The TTL of its holds, in seconds, instead of the client's; each TTL has a session of its own.
            timeout: How long `with` and `acquire` wait, in seconds; 0 is a try; `None` is as long as it takes.
            renew: With `False` a hold ends at its TTL, whatever its owner does: a lock that frees itself.
            requeue: With `False` an acquire fails with `LockLost` if its session is lost while it waits, and does not queue anew.

        Raises:
            InvalidArgument: a span is no number from 0 up.
        """
        return Lock(self, name, ttl, timeout, renew, requeue)

    def synchronized(
        self, name: str, *, ttl: float | None = None, timeout: float | None = None, renew: bool = True
    ) -> Callable[[F], F]:
        """Runs a function inside the lock that `name` makes of its arguments, such as `"job:{id}"`.

        >>> client = Client("memory://")
        >>> @client.synchronized("job:{job_id}", timeout=5)
        ... def work(job_id: int) -> str:
        ...     return f"did {job_id}"
        >>> work(7)
        'did 7'

        Raises:
            InvalidArgument: `name` asks for something that is no parameter of the function.
        """
        return synchronized(lambda made: self.lock(made, ttl=ttl, timeout=timeout, renew=renew), name)

    def ping(self) -> None:
        """Asks etcd for a sign of life.

        Raises:
            Unavailable, DeadlineExceeded, AuthenticationError: there is none, for this reason.
        """
        self._native.ping().block()

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
        self._native.close().block()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()


class Lock(LockBase["Guard"]):
    """A name that can be locked by threads. Use it with `with`, which never runs its body without the lock."""

    __slots__ = ()

    def acquire(self, timeout: float | None = None, *, cancel: Cancel | None = None) -> Guard:
        """Waits for the lock, in the order of the queue.

        Args:
            timeout: In seconds, instead of the lock's; 0 is a try.
            cancel: Lets another thread end the wait.

        Raises:
            LockTimeout: it passed; up to a second later if etcd does not confirm that the place in the queue is given up.
            InvalidArgument: a bad name, TTL or timeout.
            Unavailable, DeadlineExceeded, AuthenticationError, PermissionDenied, ResourceExhausted: the queue could not be
                joined within the request timeout.
            ClientClosed: the client is closed.
            OperationCancelled: `cancel` was cancelled. Nothing is left in the queue.
            LockLost: the session was lost while waiting, with `requeue=False`.

        Ctrl-C ends the wait within 100 ms and leaves nothing in the queue.
        """
        return claim(Guard(self._acquiring(timeout, cancel).block()))

    def try_acquire(self, *, cancel: Cancel | None = None) -> Guard | None:
        """Takes the lock if nobody holds it or waits for it. Otherwise `None`. Errors are those of `acquire`."""
        try:
            return self.acquire(0, cancel=cancel)
        except LockTimeout:
            return None

    def acquire_future(self, timeout: float | None = None) -> Future[Guard]:
        """As `acquire`, without waiting: the future brings the guard, or the error.

        Cancelling it gives up the place in the queue. A guard that nobody asks it for is released when the future goes away.
        Callbacks that are added to it run on the thread for callbacks: they should be short.
        """
        future = _AcquireFuture()
        future.operation = _dispatch.start(self._acquiring(timeout), future.complete)
        return future

    def locked(self) -> bool:
        """Whether anybody holds it or waits for it. A moment later that may be wrong. Errors are those of `queue`."""
        return bool(self.queue())

    def queue(self) -> list[Contender]:
        """Everybody in the queue, the holder first, foreign clients included.

        Raises:
            Unavailable, DeadlineExceeded, AuthenticationError, PermissionDenied: it could not be read.
        """
        return [Contender(*fields) for fields in self._native.queue(self.name).block()]

    def force_release(self, token: int) -> None:
        """Takes the lock, or the place in the queue, away from the contender with this token, whoever it is. For operators.

        Its owner may still be at work; only fencing keeps its late writes out.

        Raises:
            NotHeld: nobody in the queue has this token. Otherwise as `queue`.
        """
        self._native.force_release(self.name, token).block()

    def __enter__(self) -> Guard:
        """Acquires it; errors are those of `acquire`, and `WouldDeadlock` inside a `with` of the same name in this thread."""
        owner = threading.get_ident()
        self._scopes.check(owner)
        try:
            guard = Guard(self._acquiring(None).block())
            self._scopes.open(owner, guard)
            return claim(guard)
        except BaseException:
            self._scopes.abandon(owner)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it. `LockLost` if it was lost meanwhile, unless the body failed already."""
        self._scopes.close(threading.get_ident()).__exit__(kind, error, traceback)


class Guard(GuardBase):
    """A lock that is held by a thread, or by whoever has this object. Release it, or use it with `with`."""

    __slots__ = ()

    _lost: threading.Event | None

    def release(self) -> None:
        """Releases the lock and waits until etcd has confirmed that.

        Raises:
            LockLost: it was lost before: somebody else may have had it meanwhile.
            NotHeld: it was released before.
            ForkedError: it belongs to the parent process, which still holds it.
            Unavailable, DeadlineExceeded: etcd could not be asked. It is released here, and there in the background.
        """
        self._native.release().block()

    def extend(self, seconds: float) -> None:
        """Makes the hold last at least so long from now: 2 s to 30 days. For a hold that is renewed, a renewal at once.

        Raises:
            InvalidArgument, LockLost, DeadlineExceeded, NotHeld, ForkedError: it was not extended, for this reason.
        """
        self._native.extend(span(seconds, "the span")).block()

    def put(self, key: str | bytes, value: str | bytes) -> int:
        """Writes `value` under `key`, below the client's namespace, if the lock is still held. Returns the revision.

        Raises:
            LockLost, NotHeld, ForkedError: nothing was written.
            Unavailable, DeadlineExceeded: it may or may not have been written. It is not repeated.
        """
        return self._native.put(as_bytes(key), as_bytes(value)).block()

    def delete(self, key: str | bytes) -> bool:
        """Deletes `key` if the lock is still held. Returns whether it existed. Errors are those of `put`."""
        return self._native.delete(as_bytes(key)).block()

    def txn(self) -> Txn:
        """Reads and writes in one transaction that takes effect only if the lock is still held.

        >>> client = Client("memory://")
        >>> with client.lock("/lock/a") as guard:
        ...     guard.txn().put("/x", "1").get("/x").commit().values
        (b'1',)
        """
        return Txn(self._native)

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lock is lost; never, if it is released in time."""
        if self._lost is None:
            event = threading.Event()
            self._lost = event
            self.on_lost(lambda _: event.set())
        return self._lost

    def on_lost(self, callback: Callable[[LostReason], object]) -> None:
        """Calls `callback` with the reason, once, if the lock is lost, on the thread for callbacks: it should be short."""
        _dispatch.start(self._native.lost(), losses(callback))

    def __enter__(self) -> Self:
        """The guard itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Releases it, if that was not done. `LockLost` if it was lost meanwhile, unless the body failed already."""
        if self._native.is_forked():
            return  # The parent's.
        try:
            self.release()
        except LeaseholdError as failed:
            if self._must_raise(failed, error):
                raise


class Txn(TxnBase):
    """A transaction under a lock; see `Guard.txn`."""

    __slots__ = ()

    def commit(self) -> Committed:
        """Sends it. Errors are those of `Guard.put`."""
        return Committed(*self._guard.txn(self._ops).block())


class _AcquireFuture(Future[Guard]):
    """A future whose guard is claimed by whoever asks for it, and whose cancelling reaches the queue in etcd."""

    operation: int | None = None

    def cancel(self) -> bool:
        is_cancelled = super().cancel()
        if is_cancelled and self.operation is not None:
            _native.cancel(self.operation)
        return is_cancelled

    def result(self, timeout: float | None = None) -> Guard:
        return claim(super().result(timeout))

    def complete(self, value: object, error: LeaseholdError | None, _is_last: bool, /) -> None:
        try:
            if error is None:
                self.set_result(Guard(cast("_native.Guard", value)))
            else:
                self.set_exception(error)
        except InvalidStateError:
            pass  # Cancelled meanwhile. A guard that came nevertheless has no taker, which releases it.

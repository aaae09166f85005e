"""Elections, for threads."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, cast

from leasehold import _green, _native
from leasehold._base import ElectionBase
from leasehold._green import wait
from leasehold._guard import claim
from leasehold._sync_guard import Leadership
from leasehold._values import DEFAULT, leader

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold._errors import LeaseholdError
    from leasehold._native import Cancel
    from leasehold._values import Default, Leader, Span

# How long the main thread waits before it looks for signals, and any other one.
_SLICE_MS = 50
_HOUR_MS = 3_600_000


class Election(ElectionBase):
    """The election of a name, for threads.

    >>> import leasehold
    >>> client = leasehold.Client("memory://")
    >>> election = client.election("/jobs/scheduler")
    >>> with election.campaign("10.0.0.7:8080", timeout=5) as leadership:
    ...     leader = election.leader()
    ...     assert leader is not None and leader.token == leadership.token
    ...     leader.value
    b'10.0.0.7:8080'
    """

    __slots__ = ()

    def campaign(
        self, value: str | bytes = b"", timeout: Span | Default | None = DEFAULT, *, cancel: Cancel | None = None
    ) -> Leadership:
        """Stands for election, and waits until it leads. Leaving the block of what this returns resigns.

        Args:
            value: What it proclaims when it leads: up to 1,500,000 bytes; keep it small.
            timeout: In seconds, instead of the election's; 0 leads at once or not at all; `None` is as long as it takes.
            cancel: Lets another thread end the wait.

        Errors are those of `Lock.acquire`.
        """
        return claim(Leadership(wait(self._campaigning(value, timeout, cancel))))

    def leader(self) -> Leader | None:
        """Who leads now; `None` if nobody does. A moment later that may be wrong. Errors are those of `Lock.queue`."""
        return leader(wait(self._native.leader(self.name)))

    def observe(self) -> Observation:
        """Who leads, at once and at each change, until it is closed: to be iterated, by one thread."""
        return Observation(self._native.observe(self.name))


class Observation:
    """Who leads an election from now on: an iterator of leaders, and of `None` while there is none.

    It ends when it is closed, goes away, or its client is closed. Between two items, the latter may have been preceded by others
    that nobody saw: `has_gap` says so.
    """

    def __init__(self, call: _native.Call[object]) -> None:
        """Observations come from elections."""
        self._call: _native.Call[object] | None = call
        self._green = _green.library()
        self._queue = _native.Queue(has_fd=self._green is not None)
        self._came: deque[tuple[object, LeaseholdError | None, bool]] = deque()
        self._is_over = False
        self.has_gap = False
        """Whether changes may have been missed just before the last item: the connection was lost, or nobody listened."""

    def close(self) -> None:
        """Ends it; whoever waits for the next item is told that there is none. Twice is no error."""
        self._is_over = True
        self._queue.close()

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Leader | None:
        """Waits for the next change. Errors are those of `Lock.queue`; after one it is over."""
        if self._call is not None and not self._is_over:
            call, self._call = self._call, None
            came = self._came
            call.start(self._queue, lambda value, error, is_last: came.append((value, error, is_last)))
        while not self._came and not self._is_over:
            self._wait()
        if not self._came:
            raise StopIteration
        value, error, is_last = self._came.popleft()
        if is_last:
            self.close()
            if error is not None:
                raise error
            raise StopIteration
        led, self.has_gap = cast("tuple[tuple[str, int, bytes, int] | None, bool]", value)
        return leader(led)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def _wait(self) -> None:
        if self._green is not None:
            self._green.wait_readable(cast("int", self._queue.fd))
            self._queue.drain(_green.nothing_fails)
            return
        # Only the main thread has signals to look for.
        is_main = threading.current_thread() is threading.main_thread()
        if not self._queue.take(_SLICE_MS if is_main else _HOUR_MS, _green.nothing_fails):
            self._is_over = True

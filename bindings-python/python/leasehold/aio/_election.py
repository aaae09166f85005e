"""Elections, for event loops."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from leasehold import _native
from leasehold._base import ElectionBase
from leasehold._guard import claim
from leasehold._values import DEFAULT, leader
from leasehold.aio._guard import Leadership
from leasehold.aio._host import host

if TYPE_CHECKING:
    from typing_extensions import Self

    from leasehold._errors import LeaseholdError
    from leasehold._values import Default, Leader, Span
    from leasehold.aio._host import Event


class Election(ElectionBase):
    """The election of a name, for tasks; see `leasehold.Election`."""

    __slots__ = ()

    async def campaign(self, value: str | bytes = b"", timeout: Span | Default | None = DEFAULT) -> Leadership:
        """Stands for election, and waits until it leads. Leaving the block of what this returns resigns.

        Arguments and errors are those of `leasehold.Election.campaign`. Cancelling the task withdraws the candidate, and waits
        for that: for a second if etcd does not confirm it.
        """
        return claim(Leadership(await host().settle(self._campaigning(value, timeout))))

    async def leader(self) -> Leader | None:
        """Who leads now; `None` if nobody does. A moment later that may be wrong. Errors are those of `Lock.queue`."""
        return leader(await host().run(self._native.leader(self.name)))

    def observe(self) -> Observation:
        """Who leads, at once and at each change: for `async for`, in one task."""
        return Observation(self._native.observe(self.name))


class _Feed:
    """What has come, and how the task that waits for it is woken. The observation itself may go away meanwhile."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.came: deque[tuple[object, LeaseholdError | None, bool]] = deque()

    def take(self, value: object, error: LeaseholdError | None, is_last: bool, /) -> None:
        self.came.append((value, error, is_last))
        self.event.set()


class Observation:
    """Who leads an election from now on: an asynchronous iterator of leaders, and of `None` while there is none.

    It ends when it is closed, goes away, or its client is closed. Between two items, the latter may have been preceded by others
    that nobody saw: `has_gap` says so. It belongs to the loop that iterates it first.
    """

    def __init__(self, call: _native.Call[object]) -> None:
        """Observations come from elections."""
        self._operation = 0
        self._call = call
        self._feed: _Feed | None = None
        self._is_over = False
        self.has_gap = False
        """Whether changes may have been missed just before the last item: the connection was lost, or nobody listened."""

    async def aclose(self) -> None:
        """Ends it; whoever waits for the next item is told that there is none. Twice is no error."""
        self._end()

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Leader | None:
        """Waits for the next change. Errors are those of `Lock.queue`; after one it is over. Cancelled, it loses nothing."""
        here = host()
        if self._feed is None and not self._is_over:
            self._feed = _Feed(here.event())
            self._operation = here.start(self._call, self._feed.take)
        feed = self._feed
        while feed is not None and not feed.came and not self._is_over:
            await feed.event.wait()
            feed.event = here.event()
        if feed is None or self._is_over:
            raise StopAsyncIteration
        value, error, is_last = feed.came.popleft()
        if is_last:
            self._is_over = True
            if error is not None:
                raise error
            raise StopAsyncIteration
        led, self.has_gap = cast("tuple[tuple[str, int, bytes, int] | None, bool]", value)
        return leader(led)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        self._end()

    def __del__(self) -> None:
        """Whoever forgets it wants no more, on whatever thread that turns out."""
        if self._operation:
            _native.cancel(self._operation)

    def _end(self) -> None:
        self._is_over = True
        if self._feed is not None:
            _native.cancel(self._operation)
            self._feed.event.set()

"""What the future of our own gains beside asyncio's: a pair of acquire and release with each, in interleaved rounds.

With a store inside the process, so that no etcd is in the figures. What counts is the processor time of the loop's thread, which
other programs disturb little; the time on the clock is printed, too. Argument: the number of rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold import _native, aio
from leasehold.aio import _asyncio

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
CYCLES = 300
# Before the first round that counts.
WARM_UP = 3


def run_with_asyncios(host: _asyncio.Host, call: _native.Call[Any]) -> asyncio.Future[Any]:
    """Starts an operation and waits for its result, as the package would without a future of its own."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def complete(value: object, error: leasehold.LeaseholdError | None, _is_last: bool, /) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    operation = host.start(call, complete)

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            _native.cancel(operation)

    future.add_done_callback(ended)
    return future


KINDS: dict[str, Callable[..., Any]] = {"our own": _asyncio.Host.run, "asyncio's": run_with_asyncios}


async def cycle(lock: aio.Lock) -> tuple[float, float]:
    """The processor time of this thread for one pair, and the time on the clock, in microseconds."""
    processor, clock = time.thread_time_ns(), time.perf_counter_ns()
    for _ in range(CYCLES):
        guard = await lock.acquire()
        await guard.release()
    taken = time.thread_time_ns() - processor, time.perf_counter_ns() - clock
    return taken[0] / CYCLES / 1e3, taken[1] / CYCLES / 1e3


async def main() -> None:
    """Prints one line for each."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    async with aio.Client("memory://") as client:
        lock = client.lock("/bench/futures")
        for number in range(ROUNDS + WARM_UP):
            names = list(KINDS)
            for name in names[number % 2 :] + names[: number % 2]:
                _asyncio.Host.run = KINDS[name]  # type: ignore[method-assign]
                one = await cycle(lock)
                if number >= WARM_UP:
                    taken[name].append(one)
    for name, times in taken.items():
        ratios = [
            statistics.median(theirs[kind] / ours[kind] for theirs, ours in zip(times, taken["our own"], strict=True))
            for kind in (0, 1)
        ]
        medians = [statistics.median(one[kind] for one in times) for kind in (0, 1)]
        print(
            f"futures     {name:<10} {medians[0]:6.1f} µs of the processor {ratios[0]:.3f} x, "
            f"{medians[1]:6.1f} µs on the clock {ratios[1]:.3f} x"
        )


asyncio.run(main())

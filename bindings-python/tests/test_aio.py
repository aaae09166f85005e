"""The API for event loops, against a real etcd: the same tests on asyncio and on trio."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import uvloop
from conftest import Server, run, size

import leasehold
from leasehold import _native, aio, testing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Loop:
    """What the tests need of a loop."""

    async def pause(self) -> None:
        """Lets the loop run for a moment."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], object], what: str, seconds: float = 10) -> None:
        """Waits for a condition while the loop runs: what it waits for may come through it."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
            await self.pause()


class Asyncio(Loop):
    Cancelled: type[BaseException] = asyncio.CancelledError

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(main())

    async def pause(self) -> None:
        await asyncio.sleep(0.005)

    async def turn(self) -> None:
        """Lets every other task run once."""
        await asyncio.sleep(0)

    def event(self) -> asyncio.Event:
        return asyncio.Event()

    async def within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Whether it was done in time; cancelled otherwise."""
        try:
            await asyncio.wait_for(work(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def cancelled_at(self, event: asyncio.Event, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Cancels it when the event is set, and sees it end so."""
        task = asyncio.create_task(work())
        await event.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def together(self, *work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        await asyncio.gather(*(one() for one in work))


class CancelledTask(Asyncio):
    """With `task.cancel()` in place of `wait_for`."""

    async def within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        task = asyncio.create_task(work())
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return False
        return True


class Uvloop(Asyncio):
    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        uvloop.run(main())


class Trio(Loop):
    Cancelled: type[BaseException] = trio.Cancelled

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        trio.run(main)

    async def pause(self) -> None:
        await trio.sleep(0.005)

    async def turn(self) -> None:
        await trio.lowlevel.checkpoint()

    def event(self) -> trio.Event:
        return trio.Event()

    async def within(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        with trio.move_on_after(seconds) as scope:
            await work()
        return not scope.cancelled_caught

    async def cancelled_at(self, event: trio.Event, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await event.wait()
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught

    async def together(self, *work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        async with trio.open_nursery() as nursery:
            for one in work:
                nursery.start_soon(one)


@pytest.fixture(params=[Asyncio, Uvloop, Trio])
def loop(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def play(loop: Any, server: Server) -> Any:
    """Runs a test's coroutine with a client, and looks that nothing is left of it."""

    def play(test: Callable[[aio.Client], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with aio.Client(server.url, ttl=5) as client:
                await test(client)

        leases = server.leases()
        loop.run(main)
        assert server.leases() <= leases

    return play


def test_async_with_holds_and_releases(play: Any, server: Server, name: str) -> None:
    async def test(client: aio.Client) -> None:
        async with client.lock(name, timeout=60) as guard:
            assert guard.held
            assert server.keys(name) == [guard.key]
            assert await client.lock(name).locked()
            assert await client.lock(name).try_acquire() is None
            assert [one.token for one in await client.lock(name).queue()] == [guard.token]
            await guard.extend(9)
            await guard.put(f"/data{name}", "1")
            done = await guard.txn().get(f"/data{name}").delete(f"/data{name}").commit()
            assert done.values == (b"1",)
            assert not await guard.delete(f"/data{name}")
        assert server.keys(name) == []
        with pytest.raises(leasehold.NotHeld):
            await guard.release()
        await client.ping()

    play(test)


def test_tasks_take_turns(play: Any, loop: Any, name: str) -> None:
    counted = 0

    async def test(client: aio.Client) -> None:
        async def count() -> None:
            nonlocal counted
            async with client.lock(name):
                seen = counted
                await loop.turn()
                counted = seen + 1

        await loop.together(*[count] * 50)
        assert counted == 50

    play(test)


def test_inside_the_same_name_it_would_deadlock(play: Any, loop: Any, name: str) -> None:
    async def test(client: aio.Client) -> None:
        async with client.lock(name):
            with pytest.raises(leasehold.WouldDeadlock):
                async with client.lock(name):
                    pytest.fail("the body ran")

            async def other_task() -> None:
                with pytest.raises(leasehold.LockTimeout):
                    async with client.lock(name, timeout=0.05):
                        pytest.fail("the body ran")

            await loop.together(other_task)

    play(test)


def test_a_loss_is_told(play: Any, loop: Any, name: str) -> None:
    async def test(client: aio.Client) -> None:
        guard = await client.lock(name).acquire()
        reasons: list[leasehold.LostReason] = []
        guard.on_lost(reasons.append)
        lost = guard.lost
        await client.lock(name).force_release(guard.token)
        assert await loop.within(5, lost.wait)
        # The event and the callback are told one after the other.
        await loop.until(lambda: reasons == [leasehold.LostReason.KEY_DELETED], "the callback has run")
        with pytest.raises(leasehold.LockLost):
            await guard.release()
        with pytest.raises(leasehold.LockLost):
            async with client.lock(name) as guard:
                testing.lose(client, guard)
        with pytest.raises(ZeroDivisionError):
            async with client.lock(name) as guard:
                testing.lose(client, guard)
                raise ZeroDivisionError

    play(test)


def test_a_loss_cancels_the_body_if_asked_to(play: Any, loop: Any, name: str) -> None:
    async def test(client: aio.Client) -> None:
        with pytest.raises(leasehold.LockLost) as raised:
            async with client.lock(name, cancel_on_loss=True) as guard:
                await client.lock(name).force_release(guard.token)
                await loop.event().wait()
        assert raised.value.reason is leasehold.LostReason.KEY_DELETED
        # It is over: the task is not cancelled any more, and a block that is left in peace cancels nothing.
        before = _native.live()[2]
        async with client.lock(name, cancel_on_loss=True):
            await client.ping()
        await loop.until(lambda: _native.live()[2] <= before, "nobody waits for the loss any more")
        await client.ping()

    play(test)


def test_cancelling_from_outside_stays_so(play: Any, loop: Any, name: str) -> None:
    async def test(client: aio.Client) -> None:
        is_in = loop.event()

        async def work() -> None:
            try:
                async with client.lock(name, cancel_on_loss=True):
                    is_in.set()
                    await loop.event().wait()
            except loop.Cancelled:
                raise
            except BaseException as error:
                pytest.fail(f"{error!r} in place of the cancellation")

        await loop.cancelled_at(is_in, work)

    play(test)


def test_a_state_is_told(play: Any, loop: Any, server: Server, name: str) -> None:
    async def test(client: aio.Client) -> None:
        states: list[leasehold.SessionState] = []
        end = client.on_state(states.append)
        guard = await client.lock(name).acquire()
        lost = guard.lost
        server.call("lease/revoke", ID=str(int(guard.lease, 16)))
        assert await loop.within(10, lost.wait)
        await loop.until(lambda: states, "the state is told")
        assert states[-1].name == "lost"
        assert states[-1].reason is not None
        end()

    play(test)


def test_synchronized(play: Any, server: Server) -> None:
    async def test(client: aio.Client) -> None:
        @client.synchronized("/sync/{job_id}")
        async def work(job_id: int) -> list[str]:
            return server.keys("/sync/")

        assert len(await work(job_id=7)) == 1
        with pytest.raises(leasehold.InvalidArgument, match="Client"):
            client.synchronized("/x")(lambda: None)

    play(test)


@pytest.mark.parametrize("loop", [Asyncio, CancelledTask, Uvloop, Trio], indirect=True)
def test_cancelled_early_it_leaves_nothing(play: Any, loop: Any, server: Server, name: str) -> None:
    """At 0 to 3 ms, when the acquire may be anywhere, free and taken."""

    async def test(client: aio.Client) -> None:
        won = 0

        async def acquire() -> None:
            nonlocal won
            guard = await client.lock(name).acquire()
            won += 1
            await guard.release()

        rounds = size(60, 300)
        for taken in (False, True):
            holder = await client.lock(name).acquire() if taken else None
            for number in range(rounds):
                await loop.within(number % 31 / 10_000, acquire)
            left = [] if holder is None else [holder.key]
            # The loop must run meanwhile: a guard that was won as its taker left comes to it, and is released there.
            await loop.until(lambda left=left: server.keys(name) == left, "nothing is left in the queue")
            if holder is not None:
                await holder.release()
        assert won < 2 * rounds
        gc.collect()

    play(test)


def test_two_loops_one_client(server: Server, name: str) -> None:
    client = aio.Client(server.url)

    async def cycle() -> None:
        async with client.lock(name, timeout=60):
            pass

    for _ in range(3):
        asyncio.run(cycle())
    trio.run(cycle)
    asyncio.run(client.close())


def test_one_client_for_threads_and_tasks(server: Server, name: str) -> None:
    with leasehold.Client(server.url) as client, client.lock(name) as guard:

        async def look() -> None:
            assert [one.lease for one in await aio.Client.of(client).lock(name).queue()] == [guard.lease]

        asyncio.run(look())


def test_without_a_loop_it_says_so() -> None:
    client = aio.Client("memory://")
    with pytest.raises(RuntimeError, match="running"):
        client.lock("a").acquire().send(None)


def test_programs_without_trio_do_not_load_it(server: Server) -> None:
    code = """
import asyncio, sys
from leasehold import aio
async def main():
    async with aio.Client(sys.argv[1]) as client, client.lock("/x"):
        pass
asyncio.run(main())
assert "trio" not in sys.modules
"""
    done = run(code, server.url)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_import_and_construction_start_nothing() -> None:
    code = """
import os, leasehold, leasehold.aio
client = leasehold.Client("http://127.0.0.1:1"), leasehold.aio.Client("http://127.0.0.1:1")
lock = client[0].lock("/x")
print(len(os.listdir("/proc/self/task")), os.path.exists("/proc/self/fd/3"))
"""
    assert run(code).stdout.strip() == "1 False"


def test_many_cycles_grow_nothing(play: Any, name: str) -> None:
    def size_now() -> tuple[int, int, int]:
        gc.collect()
        status = Path("/proc/self/status").read_text()
        memory = int(status.partition("VmRSS:")[2].split()[0])
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), memory

    async def test(client: aio.Client) -> None:
        async def cycles(number: int) -> None:
            for _ in range(number):
                async with client.lock(name):
                    pass

        await cycles(500)
        threads, fds, memory = size_now()
        await cycles(size(1_500, 10_000))
        after = size_now()
        print(f"threads {threads} → {after[0]}, fds {fds} → {after[1]}, KiB {memory} → {after[2]}", file=sys.stderr)
        assert after[:2] == (threads, fds)
        assert after[2] < memory + 2_048

    play(test)

"""Blocks inside blocks of the same lock: `WOULD_DEADLOCK` where waiting would never end, and nowhere else."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import trio
import trio.testing
from conftest import Server, until

import leasehold
from leasehold import aio, testing


def test_after_a_release_or_a_loss_it_is_none(client: leasehold.Client, name: str) -> None:
    lock = client.lock(name)
    with lock as guard:
        guard.release()
        with lock as inner:
            assert inner.held
        with client.lock(name):
            pass
    with pytest.raises(leasehold.LockLost), lock as guard:
        testing.lose(client, guard)
        with lock as inner:
            assert inner.held
    with lock, pytest.raises(leasehold.WouldDeadlock), lock:
        pytest.fail("the body ran")


def test_a_try_is_none(client: leasehold.Client, name: str) -> None:
    with client.lock(name), pytest.raises(leasehold.LockTimeout), client.lock(name, timeout=0):
        pytest.fail("the body ran")

    async def main() -> None:
        async with aio.Client("memory://a-try") as other, other.lock(name):
            with pytest.raises(leasehold.LockTimeout):
                async with other.lock(name, timeout=0):
                    pytest.fail("the body ran")

    asyncio.run(main())


def test_what_frees_itself_is_none(client: leasehold.Client, name: str) -> None:
    with pytest.raises(leasehold.LockLost), client.lock(name, ttl=2, renew=False), client.lock(name) as inner:
        assert inner.held


def test_names_are_compared_whole(server: Server) -> None:
    one = leasehold.Client("memory://same", namespace="a b")
    other = leasehold.Client("memory://same", namespace="a")
    with one.lock("c"), other.lock("b c") as guard:
        assert guard.held
    # The same key, asked for in two ways.
    third = leasehold.Client("memory://same", namespace="a b/")
    with one.lock("/c"), pytest.raises(leasehold.WouldDeadlock), third.lock("c"):
        pytest.fail("the body ran")
    for client in (one, other, third):
        client.close()


def test_a_thread_that_ended_in_its_block_concerns_nobody(client: leasehold.Client, name: str) -> None:
    kept = []

    def leave_open() -> None:
        lock = client.lock(name)
        lock.__enter__()
        kept.append(lock)

    # The ident of a thread is given to the next one.
    thread = threading.Thread(target=leave_open)
    thread.start()
    thread.join()
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            with client.lock(name, timeout=0.05):
                pass
        except leasehold.LeaseholdError as error:
            failed.append(error)

    for _ in range(5):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert [type(one) for one in failed] == [leasehold.LockTimeout] * 5
    kept[0].__exit__(None, None, None)
    with client.lock(name):
        pass


def test_no_task_is_kept() -> None:
    async def main() -> None:
        client = aio.Client("memory://")
        lock = client.lock("a")
        is_in = asyncio.Event()

        async def forgotten() -> None:
            async with lock:
                is_in.set()
                await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(forgotten())
        await is_in.wait()
        seen = weakref.ref(task)
        del task
        task_of_it = seen()
        assert task_of_it is not None
        task_of_it._log_destroy_pending = False  # type: ignore[attr-defined]
        del task_of_it
        gc.collect()
        assert seen() is None, "who is inside keeps the task"
        await client.close()

    sys.unraisablehook, before = lambda _: None, sys.unraisablehook
    try:
        asyncio.run(main())
    finally:
        sys.unraisablehook = before


def within(name: str = "a") -> Any:
    client = aio.Client("memory://")

    async def inner() -> None:
        async with client.lock(name):
            pytest.fail("the body ran")

    return client, client.lock(name), inner


def test_what_a_block_gathers_is_inside_of_it() -> None:
    async def main() -> None:
        client, lock, inner = within()

        async def deeper() -> None:
            await asyncio.gather(asyncio.sleep(0), inner())

        for together in (lambda: asyncio.gather(inner(), inner()), lambda: asyncio.create_task(inner()), deeper):
            async with lock:
                with pytest.raises(leasehold.WouldDeadlock):
                    await together()

        # Who waits with a limit is not stuck.
        async def limited() -> None:
            async with client.lock("a", timeout=0.05):
                pytest.fail("the body ran")

        async with lock:
            with pytest.raises(leasehold.LockTimeout):
                await asyncio.gather(limited())
        await client.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_task_that_nobody_waits_for_is_not_stuck() -> None:
    async def main() -> None:
        client = aio.Client("memory://")
        lock = client.lock("a")

        async def later() -> None:
            async with lock:
                pass

        async with lock:
            task = asyncio.create_task(later())
            while len(await lock.queue()) < 2:
                assert not task.done()
        await asyncio.wait_for(task, 60)
        await client.close()

    asyncio.run(main())


def test_what_a_nursery_inside_runs_is_inside() -> None:
    async def main() -> None:
        client, lock, inner = within()
        caught: list[BaseException] = []

        async def catching() -> None:
            try:
                await inner()
            except leasehold.WouldDeadlock as error:
                caught.append(error)

        async with lock, trio.open_nursery() as nursery:
            nursery.start_soon(catching)
        assert len(caught) == 1

        async def waits() -> None:
            async with lock:
                pass

        # This one goes on when the block is left.
        with trio.fail_after(60):
            async with trio.open_nursery() as outer, lock:
                outer.start_soon(waits)
                await trio.testing.wait_all_tasks_blocked()
        await client.close()

    trio.run(main)


def test_a_block_of_many_tasks_keeps_them_apart(server: Server, name: str) -> None:
    """One lock object, used by many tasks and threads at once, in other orders than they came."""

    async def main() -> None:
        async with aio.Client(server.url) as client:
            lock = client.lock(name)

            async def use() -> None:
                async with lock as guard:
                    assert guard.held
                    await asyncio.sleep(0)
                    assert guard.held

            await asyncio.gather(*(use() for _ in range(30)))

    asyncio.run(main())
    until(lambda: server.keys(name) == [], "nothing is left")

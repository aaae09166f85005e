"""Locks in the shape of those of `threading` and `asyncio`: what their own tests ask, where it makes sense."""

from __future__ import annotations

import asyncio
import threading

import pytest
from conftest import Server, until

import leasehold
from leasehold import aio, testing


def test_it_does_what_threading_does(client: leasehold.Client, server: Server, name: str) -> None:
    lock = client.lock(name).as_lock()
    assert not lock.locked()
    assert lock.acquire()
    assert lock.locked()
    assert lock.owned()
    assert not lock.acquire(False)
    assert not lock.acquire(timeout=0.05)
    lock.release()
    assert not lock.locked()
    for _ in range(3):
        with lock as entered:
            assert entered is True
            assert lock.locked()
            assert lock.guard is not None
            assert lock.guard.token > 0
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(ValueError, match="non-blocking"):
        lock.acquire(False, 1)
    with pytest.raises(ValueError, match="non-negative"):
        lock.acquire(timeout=-2)
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    assert server.keys(f"{name}/") == []


def test_another_thread_may_release(client: leasehold.Client, name: str) -> None:
    lock = client.lock(name).as_lock()
    lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert not lock.locked()


def test_threads_exclude_each_other(client: leasehold.Client, name: str) -> None:
    lock, inside, most = client.lock(name).as_lock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_loss_is_the_losers_own(client: leasehold.Client, name: str) -> None:
    """Whoever lost it releases nothing of whoever has it now."""
    lock = client.lock(name).as_lock()
    lock.acquire()
    lost = lock.guard
    assert lost is not None
    client.lock(name).force_release(lost.token)
    until(lambda: not lost.held, "it is noticed")
    assert not lock.owned()
    got, done = threading.Event(), threading.Event()

    def other() -> None:
        with lock:
            got.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert got.wait(60)
    with pytest.raises(leasehold.LockLost):
        lock.release()
    assert lock.owned()
    done.set()
    thread.join()
    assert not lock.locked()


def test_a_block_never_runs_without_the_lock(client: leasehold.Client, name: str) -> None:
    with client.lock(name).acquire(), pytest.raises(leasehold.LockTimeout), client.lock(name, timeout=0.05).as_lock():
        pytest.fail("the body ran")


def test_reentrant(client: leasehold.Client, name: str) -> None:
    lock = client.lock(name).as_lock(reentrant=True)
    with lock, lock:
        assert lock.acquire(False)
        lock.release()
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(lock.acquire(False)))
        thread.start()
        thread.join()
        assert seen == [False]
        failed: list[type[BaseException]] = []

        def release() -> None:
            try:
                lock.release()
            except leasehold.NotHeld as error:
                failed.append(type(error))

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert failed == [leasehold.NotHeld]
    assert not lock.locked()
    with pytest.raises(leasehold.LockLost), lock:
        assert lock.guard is not None
        testing.lose(client, lock.guard)
        lock.acquire()


def test_it_does_what_asyncio_does(server: Server, name: str) -> None:
    async def main() -> None:
        async with aio.Client(server.url) as client:
            lock = client.lock(name).as_lock()
            assert not lock.locked()
            assert await lock.acquire()
            assert lock.locked()
            waiting = asyncio.create_task(lock.acquire())
            while len(server.keys(f"{name}/")) < 2:
                await asyncio.sleep(0.005)
            assert not waiting.done()
            lock.release()
            assert await asyncio.wait_for(waiting, 60)
            lock.release()
            assert not lock.locked()
            with pytest.raises(RuntimeError):
                lock.release()
            inside = 0

            async def work() -> None:
                nonlocal inside
                async with lock:
                    inside += 1
                    assert inside == 1
                    await asyncio.sleep(0)
                    inside -= 1

            await asyncio.gather(*(work() for _ in range(20)))
            with pytest.raises(leasehold.LockLost):
                async with lock:
                    (holder,) = await client.lock(name).queue()
                    await client.lock(name).force_release(holder.token)

    asyncio.run(main())

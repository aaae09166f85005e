"""Callbacks: whatever they raise, the next ones are told; and they run where and in which context they were registered."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import trio
from conftest import run, until

import leasehold
from leasehold import _dispatch, _native, aio, testing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

native: Any = _native.testing  # type: ignore[attr-defined]  # only in builds for tests

KINDS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, BaseException, RuntimeError]


def losing(client: Any, name: str, callback: Callable[[leasehold.LostReason], object]) -> None:
    guard = client.lock(name).acquire()
    guard.on_lost(callback)
    testing.lose(client, guard)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_are_told_whatever_a_callback_raises(kind: type[BaseException], name: str) -> None:
    def fail(_: object) -> None:
        raise kind

    told = threading.Event()
    with leasehold.Client("memory://") as client:
        losing(client, name, fail)
        losing(client, name, lambda _: told.set())
        assert told.wait(60)


def test_threads_are_told_although_the_log_fails_as_well(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(logging.Filter):
        def filter(self, _: logging.LogRecord) -> bool:
            raise SystemExit

    def fail(_: object) -> None:
        raise RuntimeError("of the user's")

    told = threading.Event()
    failing = Failing()
    logging.getLogger("leasehold").addFilter(failing)
    try:
        with leasehold.Client("memory://") as client:
            losing(client, name, fail)
            losing(client, name, lambda _: told.set())
            assert told.wait(60)
    finally:
        logging.getLogger("leasehold").removeFilter(failing)
    assert "of the user's" in capsys.readouterr().err


def test_a_callback_thread_that_ended_is_replaced() -> None:
    """As by an exception that a debugger throws into it. Nothing of what waits for it is lost."""
    # Of its own: the thread that is only taken for dead goes on beside the new one, which other tests must not meet.
    dispatcher = _dispatch._Dispatcher(None)
    queue = dispatcher.queue()
    thread = dispatcher._thread
    assert thread is not None
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    dispatcher._is_alive = ended.is_alive  # What it would see.
    told = threading.Event()
    native.echo("x").start(dispatcher.queue(), lambda value, error, is_last: told.set())
    assert dispatcher._thread is not thread
    assert dispatcher._is_alive()
    assert dispatcher.queue() is queue, "what waits in it is not lost"
    assert told.wait(60)
    dispatcher.end()
    until(lambda: not thread.is_alive() and not dispatcher._is_alive(), "both threads have ended")


@pytest.mark.parametrize("kind", KINDS)
def test_trio_goes_on_whatever_a_callback_raises(kind: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise kind

    async def main() -> None:
        client = aio.Client("memory://")
        first, second = await client.lock("a").acquire(), await client.lock("b").acquire()
        first.on_lost(fail)
        lost = second.lost
        for guard in (first, second):
            await client.lock(guard.name).force_release(guard.token)
        with trio.fail_after(60):
            await lost.wait()
        await client.close()

    trio.run(main)
    assert "a callback failed" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_asyncio_goes_on_whatever_a_callback_raises(kind: type[BaseException]) -> None:
    """What ends a program ends `run_forever`, as with every callback of asyncio. The loop can be run again."""

    def fail(_: object) -> None:
        raise kind

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)

    async def main() -> None:
        client = aio.Client("memory://")
        first, second = await client.lock("a").acquire(), await client.lock("b").acquire()
        first.on_lost(fail)
        lost = second.lost
        for guard in (first, second):
            await client.lock(guard.name).force_release(guard.token)
        await asyncio.wait_for(lost.wait(), 60)
        await client.close()

    task = loop.create_task(main())
    if kind in (SystemExit, KeyboardInterrupt):
        with pytest.raises(kind):
            loop.run_until_complete(task)
    loop.run_until_complete(task)
    loop.close()


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


def with_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def with_trio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    trio.run(main)


@pytest.mark.parametrize("run_loop", [with_asyncio, with_trio])
def test_loops_call_back_in_the_context_of_whoever_asked(run_loop: Callable[..., None]) -> None:
    async def main() -> None:
        client = aio.Client("memory://")
        variable.set("the first user of the loop")
        await client.ping()
        guard = await client.lock("a").acquire()
        seen: list[str] = []
        states: list[str] = []
        variable.set("who asks")
        guard.on_lost(lambda _: seen.append(variable.get()))
        end = client.on_state(lambda _: states.append(variable.get()))
        variable.set("later")
        lost = guard.lost
        await client.lock("a").force_release(guard.token)
        await lost.wait()
        while not seen:
            await client.ping()
        await client.close()
        while not states:
            await aio.Client("memory://").ping()
        end()
        assert seen == ["who asks"]
        assert set(states) == {"who asks"}

    run_loop(main)


def test_a_loop_keeps_no_context_of_its_first_user() -> None:
    class Request:
        pass

    request: contextvars.ContextVar[Request] = contextvars.ContextVar("request")

    seen: list[weakref.ref[Request]] = []

    async def first() -> None:
        mine = Request()
        seen.append(weakref.ref(mine))
        request.set(mine)
        await aio.Client("memory://").ping()

    async def main() -> None:
        asyncio.get_running_loop().create_task(first())
        while not seen or len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
        gc.collect()
        assert seen[0]() is None

    asyncio.run(main())


def test_the_event_of_a_loss_is_of_the_loop_that_asks() -> None:
    client = aio.Client("memory://")
    guards: list[aio.Guard] = []

    async def acquire() -> None:
        guards.append(await client.lock("a").acquire())
        assert not guards[0].lost.is_set()
        assert guards[0].lost is guards[0].lost

    async def wait_asyncio() -> None:
        waiter = asyncio.create_task(guards[0].lost.wait())  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await client.lock("a").force_release(guards[0].token)
        await asyncio.wait_for(waiter, 60)
        assert guards[0].lost.is_set()

    async def wait_trio() -> None:
        with trio.fail_after(60):
            await guards[0].lost.wait()

    asyncio.run(acquire())
    asyncio.run(wait_asyncio())
    trio.run(wait_trio)

    async def wait_late() -> None:
        await asyncio.wait_for(guards[0].lost.wait(), 60)

    asyncio.run(wait_late())
    asyncio.run(client.close())


def test_events_of_two_loops_at_once_wake() -> None:
    client = leasehold.Client("memory://")
    shared = aio.Client.of(client)
    guard = asyncio.run(shared.lock("a").acquire())  # type: ignore[arg-type]
    ready, woken = threading.Barrier(3), []

    def one() -> None:
        async def main() -> None:
            lost = guard.lost
            ready.wait(60)
            await asyncio.wait_for(lost.wait(), 60)
            woken.append(lost)

        asyncio.run(main())

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    client.lock("a").force_release(guard.token)
    for thread in threads:
        thread.join()
    assert len(woken) == 2
    assert woken[0] is not woken[1]
    client.close()


def test_a_warning_hook_that_raises_is_no_ctrl_c() -> None:
    code = """
import gc, sys, warnings
import leasehold
seen = []
sys.unraisablehook = lambda failed: seen.append(failed.exc_type)
def hook(*_): raise RuntimeError("of the hook")
warnings.showwarning = hook
warnings.simplefilter("always")
client = leasehold.Client("memory://")
guard = client.lock("/a").acquire()
del guard
gc.collect()
for _ in range(1000): pass
assert seen == [RuntimeError], seen
print("well")
"""
    done = run(code)
    assert (done.stdout, done.returncode) == ("well\n", 0), done


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to take")
def test_blocked_threads_do_not_take_the_gil() -> None:
    """50 threads that wait beside the main one, which looks for signals: how often each wakes up meanwhile."""
    code = """
import os, sys, threading, time
import leasehold
client = leasehold.Client("memory://")
holder = client.lock("/a").acquire()
def wait():
    try: client.lock("/a").acquire()
    except leasehold.LeaseholdError: pass
def woke(thread):
    text = open(f"/proc/self/task/{thread.native_id}/status").read()
    return int(text.partition("\\nvoluntary_ctxt_switches:")[2].split()[0])
threads = [threading.Thread(target=wait, daemon=True) for _ in range(50)]
for thread in threads: thread.start()
def watch():
    while len(client.lock("/a").queue()) < 52: time.sleep(0.01)  # the main thread, too
    main = threading.main_thread()
    def until_main_looked(times):
        first = woke(main)
        while woke(main) < first + times: time.sleep(0.01)
    until_main_looked(2)
    before = sum(map(woke, threads))
    until_main_looked(20)
    print(sum(map(woke, threads)) - before)
    sys.stdout.flush()
    os._exit(0)
threading.Thread(target=watch).start()
wait()
"""
    done = run(code)
    # As often as the main thread, they would be a thousand.
    assert int(done.stdout) < 100, done

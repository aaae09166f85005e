"""What tasks await: the future of an operation, as asyncio's own, with every kind of task and loop that may meet it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from conftest import until

import leasehold
from leasehold import _native, aio
from leasehold.aio._host import host

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

native: Any = _native.testing  # type: ignore[attr-defined]  # only in builds for tests

Main = "Callable[[], Coroutine[Any, Any, None]]"


def with_tasks(make: Callable[..., asyncio.Task[None]]) -> Callable[[Main], None]:
    """Runs a coroutine function in tasks of that kind."""

    def run(main: Main) -> None:
        async def outer() -> None:
            asyncio.get_running_loop().set_task_factory(lambda loop, coro, **more: make(coro, loop=loop, **more))
            await asyncio.get_running_loop().create_task(main())

        asyncio.run(outer())

    return run


def in_python(main: Main) -> None:
    """Runs it in tasks without a line of C, as debuggers do."""
    tasks: Any = asyncio.tasks
    with pytest.MonkeyPatch.context() as patched:
        # From 3.14 on, each kind of task has a place of its own for the current one.
        if sys.version_info >= (3, 14):
            patched.setattr(tasks, "current_task", tasks._py_current_task)
        with_tasks(tasks._PyTask)(main)


KINDS: dict[str, Callable[[Main], None]] = {
    "asyncio": lambda main: asyncio.run(main()),
    "debug": lambda main: asyncio.run(main(), debug=True),
    "tasks in Python": in_python,
    "uvloop": lambda main: uvloop.run(main()),
}
if sys.version_info >= (3, 12):
    KINDS["eager"] = with_tasks(lambda coro, **more: asyncio.Task(coro, eager_start=True, **more))


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    return KINDS[request.param]


def future(call: Any) -> _native.Future[Any]:
    """The future itself, which users never see."""
    started = host().run(call)
    assert isinstance(started, _native.Future)
    return started


def test_it_wakes_its_task_in_its_context(run: Callable[[Main], None]) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def one(number: int) -> None:
        variable.set(number)
        task = asyncio.current_task()
        for _ in range(10):
            assert await host().run(native.echo(str(number))) == str(number)
            assert variable.get() == number
            assert asyncio.current_task() is task
        with pytest.raises(leasehold.PermissionDenied) as raised:
            await host().run(native.fail(33))
        assert raised.value.__traceback__ is not None

    async def main() -> None:
        await one(0)
        await asyncio.gather(*(one(number) for number in range(20)))

    run(main)


def test_what_asyncio_makes_of_futures_works_with_it(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        assert asyncio.isfuture(future(native.echo("x")))
        assert await asyncio.gather(future(native.echo("a")), future(native.echo("b"))) == ["a", "b"]
        failed = await asyncio.gather(future(native.fail(30)), return_exceptions=True)
        assert [type(one) for one in failed] == [leasehold.Unavailable]
        assert await asyncio.wait_for(future(native.echo("c")), 60) == "c"
        inner = future(native.never())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), 0.01)
        assert not inner.done()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(inner, 0.01)
        assert inner.cancelled()
        done, pending = await asyncio.wait({future(native.echo("d"))})
        assert [one.result() for one in done] == ["d"]
        assert not pending
        if sys.version_info >= (3, 11):
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.01):
                    await host().run(native.never())
            with pytest.raises(Exception, match="unhandled errors in a TaskGroup"):
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.wait_for(future(native.never()), 60))
                    group.create_task(asyncio.wait_for(future(native.fail(30)), 60))
        until(lambda: _native.live()[2] == 0, "what was cancelled is over")

    run(main)


def test_it_answers_as_a_future_does() -> None:
    async def main() -> None:
        called: list[object] = []
        one = future(native.never())
        assert not one.done()
        assert not one.cancelled()
        assert one.get_loop() is asyncio.get_running_loop()
        for ask in (one.result, one.exception):
            with pytest.raises(asyncio.InvalidStateError):
                ask()
        one.add_done_callback(called.append)
        one.add_done_callback(print)
        assert one.remove_done_callback(print) == 1
        assert one.remove_done_callback(print) == 0
        assert one.cancel("enough")
        assert not one.cancel()
        assert one.cancelled()
        assert called == []  # By way of the loop: whoever cancels is in the middle of something.
        for ask in (one.result, one.exception):
            with pytest.raises(asyncio.CancelledError, match="enough"):
                ask()
        await asyncio.sleep(0)
        assert called == [one]
        kept = future(native.echo("x"))
        await asyncio.wait({kept})
        assert kept.result() == "x"
        assert await kept == "x"
        with pytest.raises(asyncio.InvalidStateError):
            kept.result()  # A guard is to be freed by whoever has it.
        two = future(native.fail(30))
        await asyncio.wait({two})
        assert isinstance(two.exception(), leasehold.Unavailable)
        with pytest.raises(leasehold.Unavailable):
            two.result()
        two.add_done_callback(called.append)
        await asyncio.sleep(0)
        assert called == [one, two]
        with pytest.raises(leasehold.Unavailable):
            await two

    asyncio.run(main())


def test_a_coroutine_that_goes_away_cancels_it() -> None:
    async def main() -> None:
        async def wait() -> None:
            await host().run(native.never())

        def begun() -> Coroutine[Any, Any, None]:
            coroutine = wait()
            coroutine.send(None)
            assert _native.live()[2] == 1
            return coroutine

        def cancelled() -> None:
            until(lambda: _native.live()[2] == 0, "the operation is cancelled")

        closed = begun()
        closed.close()
        cancelled()
        begun()  # Freed.
        cancelled()
        with pytest.raises(RuntimeError, match="asyncio"):
            begun().send(None)
        cancelled()
        thrown = begun()
        with pytest.raises(ZeroDivisionError, match="by the caller"):
            thrown.throw(ZeroDivisionError, ZeroDivisionError("by the caller"), None)
        cancelled()

    asyncio.run(main())


@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_loses_no_completion(kind: type[BaseException], others: int) -> None:
    loop = asyncio.new_event_loop()
    echoed: list[str] = []

    async def end() -> None:
        await host().run(native.echo("x"))
        raise kind

    async def echo(number: int) -> None:
        echoed.append(await host().run(native.echo(str(number))))

    async def main() -> None:
        tasks = [loop.create_task(end()), *(loop.create_task(echo(number)) for number in range(others))]
        await asyncio.sleep(0)
        # All of them come in one batch: one thread carries them out, one after the other.
        native.echo("last").block()
        await asyncio.wait(tasks)

    task = loop.create_task(main())
    with pytest.raises(kind):
        loop.run_until_complete(task)
    loop.run_until_complete(task)
    assert sorted(echoed) == [str(number) for number in range(others)]
    loop.close()


def test_a_guard_that_comes_as_its_task_is_cancelled_is_released() -> None:
    gc.collect()
    before = _native.live()[1]

    async def main() -> None:
        client = aio.Client("memory://")
        first, second = client.lock("first"), client.lock("second")
        tasks = [asyncio.create_task(lock.acquire()) for lock in (first, second)]
        await asyncio.sleep(0)
        until(lambda: _native.live()[2] == 0, "both are acquired, and nobody knows yet")

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        # After the guards have come, before their tasks have run.
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(cancel))
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                await task.result().release()
        tasks.clear()
        until(lambda: _native.live()[1] == before, "no guard is left")
        await client.close()

    asyncio.run(main())


def test_a_loop_that_is_forgotten_takes_its_futures_along() -> None:
    gc.collect()

    async def main() -> None:
        globals()["waiting"] = asyncio.get_running_loop().create_task(wait())
        await asyncio.sleep(0)

    async def wait() -> None:
        await host().run(native.never())

    loop = asyncio.new_event_loop()
    seen = weakref.ref(loop)
    loop.run_until_complete(main())
    globals().pop("waiting")
    loop.close()
    del loop
    # The next loop's first operation forgets those that are closed.
    asyncio.run(asyncio.wait_for(cycle(), 60))
    gc.collect()
    assert seen() is None
    until(lambda: _native.live()[2] == 0, "its operation is cancelled")


async def cycle() -> None:
    """One operation."""
    await host().run(native.echo("x"))

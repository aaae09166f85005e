"""The decorator: a body runs inside its lock, or not at all, whatever kind of function it is."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold import aio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

ran: list[str] = []


def generator() -> Iterator[int]:
    ran.append("generator")
    yield 1


async def async_generator() -> AsyncIterator[int]:
    ran.append("async generator")
    yield 1


async def coroutine() -> int:
    ran.append("coroutine")
    return 1


def returns_awaitable() -> Awaitable[int]:
    return coroutine()


class AsyncCall:
    async def __call__(self) -> int:
        ran.append("async __call__")
        return 1


class GeneratorCall:
    def __call__(self) -> Iterator[int]:
        yield 1


LAZY: dict[str, Callable[[], Any]] = {
    "generator": generator,
    "async generator": async_generator,
    "coroutine": coroutine,
    "partial of a coroutine": functools.partial(coroutine),
    "partial of a generator": functools.partial(generator),
    "async __call__": AsyncCall(),
    "generator __call__": GeneratorCall(),
}
# What nobody can know before it was called.
LAZY_RESULT: dict[str, Callable[[], Any]] = {
    "awaitable": returns_awaitable,
    "generator": lambda: generator(),  # noqa: PLW0108 - what is called is a plain function
    "async generator": lambda: async_generator(),  # noqa: PLW0108
    "expression": lambda: (number for number in (1, 2)),
}


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    assert ran == [], "a body ran outside of its lock"


@pytest.mark.parametrize("kind", LAZY)
def test_what_runs_later_is_refused(client: leasehold.Client, kind: str) -> None:
    with pytest.raises(leasehold.InvalidArgument, match="inside"):
        client.synchronized("/x")(LAZY[kind])


@pytest.mark.parametrize("kind", LAZY_RESULT)
@pytest.mark.filterwarnings("error")
def test_what_turns_out_to_run_later_is_refused(client: leasehold.Client, kind: str, name: str) -> None:
    wrapped = client.synchronized(name)(LAZY_RESULT[kind])
    with pytest.raises(leasehold.InvalidArgument, match="inside"):
        wrapped()
    assert not client.lock(name).locked()


@pytest.mark.parametrize("kind", ["generator", "async generator", "generator __call__"])
def test_what_loops_cannot_run_inside_is_refused(kind: str) -> None:
    with pytest.raises(leasehold.InvalidArgument, match="inside"):
        aio.Client("memory://").synchronized("/x")(LAZY[kind])


def test_coroutines_run_inside() -> None:
    async def main() -> None:
        client = aio.Client("memory://")
        kept: list[bool] = []

        class Inside:
            async def __call__(self) -> int:
                kept.append(await client.lock("/x").locked())
                return 1

        async def inside() -> int:
            return await Inside()()

        kinds: list[Callable[[], Awaitable[int]]] = [Inside(), inside, functools.partial(inside), Inside().__call__]
        for one in kinds:
            assert await client.synchronized("/x")(one)() == 1
        assert kept == [True] * len(kinds)

        async def returns_lazy() -> AsyncIterator[int]:
            return async_generator()

        with pytest.raises(leasehold.InvalidArgument, match="inside"):
            await client.synchronized("/x")(returns_lazy)()
        assert not await client.lock("/x").locked()
        await client.close()

    asyncio.run(main())


def test_a_static_or_class_method_says_where_to_put_it(client: leasehold.Client) -> None:
    for kind in (staticmethod, classmethod):
        with pytest.raises(leasehold.InvalidArgument, match="below"):
            client.synchronized("/x")(kind(lambda *_: None))

    class Work:
        number = 7

        @client.synchronized("/sync/{self.number}")
        def method(self) -> int:
            return self.number

        @staticmethod
        @client.synchronized("/sync/{number}")
        def static(number: int) -> int:
            return number

    assert (Work().method(), Work.static(3)) == (7, 3)

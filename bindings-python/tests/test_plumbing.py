"""Operations that echo, fail, panic and never answer, without a server: nothing of it takes the interpreter down."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import threading
import time
from typing import Any

import pytest
import trio
from conftest import ROOT, until

import leasehold
from leasehold import _dispatch, _errors, _native
from leasehold.aio._host import host

native: Any = _native.testing  # type: ignore[attr-defined]  # only in builds for tests


def test_an_echo_comes_back() -> None:
    assert native.echo("hü").block() == "hü"


@pytest.mark.parametrize("code", leasehold.Code)
def test_every_code_has_its_exception(code: leasehold.Code) -> None:
    with pytest.raises(leasehold.LeaseholdError) as raised:
        native.fail(code.value).block()
    assert raised.value.code is code
    assert type(raised.value) is not leasehold.LeaseholdError
    assert code.name in str(raised.value)


def test_every_exception_is_exported_and_has_a_code_of_its_own() -> None:
    kinds = leasehold.LeaseholdError.__subclasses__()
    assert {kind.__name__ for kind in kinds} <= set(leasehold.__all__)
    assert sorted(kind.code for kind in kinds) == sorted(leasehold.Code)
    assert issubclass(leasehold.LockTimeout, TimeoutError)
    assert type(_errors.from_native(12345, "new", None)) is leasehold.InternalError


def test_no_code_or_reason_of_the_core_is_unknown() -> None:
    """The header of C is generated from the core's table."""
    header = (ROOT / "include" / "leasehold.h").read_text()
    numbers = dict(re.findall(r"^ *(?:#define )?LH_(\w+) *=? *\(?(\d+)\)?,?$", header, re.MULTILINE))
    for one in [*leasehold.Code, *leasehold.LostReason]:
        names = {one.name, f"LOST_{one.name}"}
        assert {numbers.get(name) for name in names} & {str(one.value)}, one
    known = {code.value for code in leasehold.Code}
    table = (ROOT / "docs" / "errors.md").read_text()
    listed = {
        int(number) for number, name in re.findall(r"^\| (\d+) \| \[`(\w+)`\]", table, re.MULTILINE) if name != "OK"
    }
    assert listed - {0} <= known | {reason.value for reason in leasehold.LostReason}, "a code that Python does not know"
    assert known <= listed


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_panic_is_an_error(stage: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(leasehold.InternalError, match="panic"):
        native.panic(stage).block()
    assert native.echo("alive").block() == "alive"
    assert "asked for" in capfd.readouterr().err


def test_ctrl_c_ends_a_wait_within_100_ms() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    taken = []
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(5):
            sent = []

            def send(sent: list[float] = sent) -> None:
                until(lambda: _native.live()[2] == 1, "it waits")
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGUSR1)

            until(lambda: _native.live()[2] == 0, "the one before is over")
            threading.Thread(target=send).start()
            with pytest.raises(Interrupted):
                native.never().block()
            taken.append(time.monotonic() - sent[0])
    finally:
        signal.signal(signal.SIGUSR1, before)
    # The median: the machine may be busy.
    assert sorted(taken)[2] < 0.1, taken
    until(lambda: _native.live()[2] == 0, "no operation is left")


def test_other_threads_run_while_one_waits() -> None:
    thread = threading.Thread(target=lambda: native.echo("x").block())
    operation = _dispatch.start(native.never(), lambda value, error, is_last: None)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert _native.cancel(operation)
    until(lambda: not _native.cancel(operation), "it is over")


async def cancelled_by(cancel: Any) -> None:
    assert await host().run(native.echo("on the loop")) == "on the loop"
    with pytest.raises(leasehold.PermissionDenied):
        await host().run(native.fail(33))
    await cancel()
    until(lambda: _native.live()[2] == 0, "the operation was cancelled, too")


def test_asyncio_completes_and_cancels() -> None:
    async def cancel() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(host().run(native.never()), 0.01)

    asyncio.run(cancelled_by(cancel))


def test_trio_completes_and_cancels() -> None:
    async def cancel() -> None:
        with trio.move_on_after(0.01) as scope:
            await host().run(native.never())
        assert scope.cancelled_caught

    trio.run(cancelled_by, cancel)


def test_one_descriptor_for_each_loop_and_none_is_left() -> None:
    async def echo_twice() -> int:
        await asyncio.gather(*(host().run(native.echo("x")) for _ in range(100)))
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # What earlier tests left.
    asyncio.run(echo_twice())
    first = asyncio.run(echo_twice())
    assert [asyncio.run(echo_twice()) for _ in range(5)] == [first] * 5
    until(lambda: _native.live()[3] <= 2, "there are the callbacks' and the last loop's")


def test_a_callback_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def fail(*_: object) -> None:
        raise RuntimeError("of the user's")

    _dispatch.start(native.echo("x"), fail)
    _dispatch.start(native.echo("x"), lambda value, error, is_last: done.set())
    assert done.wait(60)
    assert "of the user's" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_callback_that_ends_the_program_does_not_stop_the_others(kind: type[BaseException]) -> None:
    queue = _native.Queue(has_fd=True)
    told: list[object] = []

    def fail(*_: object) -> None:
        raise kind

    native.echo("first").start(queue, fail)
    native.echo("second").start(queue, lambda value, _error, _is_last: told.append(value))
    # One thread carries them out, one after the other: both are in the queue.
    native.echo("third").block()
    with pytest.raises(kind):
        queue.drain(told.append)
    assert told == ["second"]
    queue.close()

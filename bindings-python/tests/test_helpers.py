"""The helpers for frameworks, each with what it is for; the recipes play them in servers and workers of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from celery import Celery, Task
from conftest import Server, run
from fastapi import Depends, FastAPI, Request

import leasehold
from leasehold import aio, testing
from leasehold import apscheduler as schedule
from leasehold.apscheduler import once
from leasehold.celery import locked_task
from leasehold.fastapi import locked

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def app() -> Celery:
    """Its tasks run where they are asked for."""
    return Celery("test", broker="memory://", backend="cache+memory://")


def test_a_task_runs_in_the_lock_of_its_arguments(app: Celery, client: leasehold.Client, name: str) -> None:
    @locked_task(client, name + "/{order}", app=app, bind=True, name="settle")
    def settle(self: Task, order: int, *, at: str = "x") -> tuple[str, int, str, str]:
        guard = leasehold.current_guard()
        assert guard is not None
        return self.name, order, at, guard.name

    assert settle.name == "settle"
    assert settle.apply((7,), {"at": "y"}).get() == ("settle", 7, "y", f"{name}/7")
    with client.lock(f"{name}/8").acquire():
        assert settle.apply((7,)).get()[1] == 7
    with pytest.raises(TypeError, match="order"):
        settle.apply_async(())  # As of every task, before anything is sent.


def test_a_task_whose_lock_is_taken_is_put_back(app: Celery, client: leasehold.Client, name: str) -> None:
    runs: list[int] = []

    @locked_task(client, name, app=app, max_retries=2, retry_backoff=False, default_retry_delay=0)
    def work() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise leasehold.LockTimeout("of another lock, in the body")
        return len(runs)

    assert work.autoretry_for == (leasehold.LockTimeout,)
    assert work.apply().get() == 2
    with client.lock(name).acquire():
        done = work.apply()
        assert isinstance(done.result, leasehold.LockTimeout)
        assert not done.successful()
    assert len(runs) == 2
    assert work.apply().get() == 3


def test_a_task_whose_lock_is_taken_is_skipped(app: Celery, client: leasehold.Client, name: str) -> None:
    @locked_task(client, name, busy="skip", app=app)
    def work(fails: bool = False) -> str:
        if fails:
            raise leasehold.LockTimeout("of another lock, in the body")
        return "done"

    with client.lock(name).acquire():
        skipped = work.apply()
    assert (skipped.get(), skipped.successful()) == (None, True)
    assert work.apply().get() == "done"
    assert isinstance(work.apply((True,)).result, leasehold.LockTimeout)
    with pytest.raises(leasehold.InvalidArgument, match="busy"):
        locked_task(client, name, busy="wait", app=app)  # type: ignore[arg-type]
    with pytest.raises(leasehold.InvalidArgument, match="generator"):

        @locked_task(client, name, app=app)
        def later() -> Any:
            yield 1


def test_a_task_that_loses_its_lock_fails(app: Celery, client: leasehold.Client, name: str) -> None:
    @locked_task(client, name, app=app)
    def work() -> None:
        guard = leasehold.current_guard()
        assert guard is not None
        testing.lose(client, guard)

    assert isinstance(work.apply().result, leasehold.LockLost)


def ask(app: FastAPI, play: Callable[[httpx.AsyncClient], Any]) -> None:
    async def main() -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            await play(http)

    asyncio.run(main())


def test_an_endpoint_runs_in_the_lock_of_its_path(server: Server, name: str) -> None:
    client = aio.Client(server.url)
    app = FastAPI()
    is_in, go_on = asyncio.Event(), asyncio.Event()
    slow = locked(client, name + "/{document}", retry_after=7)

    @app.post("/documents/{document}")
    async def publish(document: str, guard: aio.Guard = Depends(slow)) -> int:  # noqa: B008
        assert aio.current_guard() is guard
        is_in.set()
        await go_on.wait()
        return guard.token

    async def play(http: httpx.AsyncClient) -> None:
        first = asyncio.create_task(http.post("/documents/1"))
        await asyncio.wait_for(is_in.wait(), 60)
        busy = await http.post("/documents/1")
        assert (busy.status_code, busy.headers["Retry-After"]) == (423, "7")
        other = asyncio.create_task(http.post("/documents/2"))
        while len(server.keys(name)) < 2:  # The one does not keep out the other.
            await asyncio.sleep(0.01)
        go_on.set()
        assert (await first).json() > 0
        assert (await other).status_code == 200
        assert (await http.post("/documents/1")).status_code == 200
        await client.close()

    ask(app, play)
    assert server.keys(name) == []


def test_an_endpoint_in_a_thread_and_a_name_by_a_function(server: Server, name: str) -> None:
    client = leasehold.Client(server.url)
    app = FastAPI()

    def named(request: Request) -> str:
        return f"{name}/{request.query_params['tenant']}"

    @app.get("/", dependencies=[Depends(locked(client, named))])
    def work() -> str:
        guard = aio.current_guard()
        assert guard is not None
        return guard.name

    async def play(http: httpx.AsyncClient) -> None:
        assert (await http.get("/?tenant=a")).json() == f"{name}/a"
        with client.lock(f"{name}/a").acquire():
            assert (await http.get("/?tenant=a")).status_code == 423
            assert (await http.get("/?tenant=b")).status_code == 200

    ask(app, play)
    client.close()


def test_an_endpoint_that_loses_its_lock_is_cancelled(server: Server, name: str) -> None:
    client = aio.Client(server.url)
    app = FastAPI()
    ends: list[type[BaseException]] = []
    lost = locked(client, name, cancel_on_loss=True)

    @app.get("/")
    async def work(guard: aio.Guard = Depends(lost)) -> None:  # noqa: B008
        await client.lock(name).force_release(guard.token)
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            ends.append(type(error))
            raise

    async def play(http: httpx.AsyncClient) -> None:
        assert (await http.get("/")).status_code == 500
        await client.close()

    ask(app, play)
    assert ends == [asyncio.CancelledError]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the helper takes for the time, in a list."""
    now = [1_000_000.0]
    monkeypatch.setattr(schedule.time, "time", lambda: now[0])
    return now


def test_a_job_runs_once_in_a_period(client: leasehold.Client, server: Server, clock: list[float], name: str) -> None:
    runs: list[str] = []
    other = leasehold.Client(server.url)

    def job(where: str) -> str:
        assert leasehold.current_guard() is not None
        runs.append(where)
        return where

    here, there = once(client, name, every=60)(job), once(other, name, every=60)(job)
    assert here("here") == "here"
    assert there("there") is None, "a clock that is late"
    clock[0] += 60
    assert there("there") == "there"
    clock[0] -= 60
    assert here("here") is None, "a clock that is a little behind"
    clock[0] += 120
    with client.lock(name).acquire():
        assert there("busy") is None
    assert here("again") == "again"
    assert runs == ["here", "there", "again"]
    other.close()


def test_a_job_that_fails_is_not_repeated(client: leasehold.Client, clock: list[float], name: str) -> None:
    @once(client, name, every=60)
    def job() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job()
    assert job() is None
    clock[0] += 60
    with pytest.raises(ZeroDivisionError):
        job()


def test_a_job_of_a_loop_runs_once_in_a_period(server: Server, clock: list[float], name: str) -> None:
    async def main() -> None:
        async with aio.Client(server.url) as client:
            runs: list[int] = []

            @once(client, name, every=60)
            async def job() -> int:
                await asyncio.sleep(0)
                runs.append(1)
                return len(runs)

            assert sorted(await asyncio.gather(*(job() for _ in range(5))), key=str) == [1, *[None] * 4]
            clock[0] += 60
            assert await job() == 2

    asyncio.run(main())


def test_a_job_is_refused_where_it_makes_no_sense(client: leasehold.Client, name: str) -> None:
    async def job() -> None:
        pass

    with pytest.raises(leasehold.InvalidArgument, match=r"leasehold\.aio"):
        once(client, name, 60)(job)
    with pytest.raises(leasehold.InvalidArgument, match=r"leasehold\.aio"):
        once(aio.Client.of(client), name, 60)(len)
    for period in (0, -1):
        with pytest.raises(leasehold.InvalidArgument):
            once(client, name, period)


def test_the_plugin_of_pytest(server: Server, tmp_path: Any) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["leasehold.testing"]\n')
    (tmp_path / "test_theirs.py").write_text("""
import os, queue, signal
import leasehold

def test_in_memory(leasehold_client):
    with leasehold_client.lock("/a") as guard:
        assert guard.held

def test_for_real(leasehold_etcd):
    with leasehold.Client(leasehold_etcd.url) as client:
        guard, reasons = client.lock("/a").acquire(), queue.Queue()
        guard.on_lost(reasons.put)
        leasehold_etcd.revoke(guard)
        assert not guard.held
        assert reasons.get(timeout=60) is leasehold.LostReason.LEASE_REVOKED
        os.kill(leasehold_etcd.pid, signal.SIGSTOP)
        os.kill(leasehold_etcd.pid, signal.SIGCONT)
        client.ping()
""")
    code = "import pytest, sys; sys.exit(pytest.main(['-p', 'no:cacheprovider', '-q', sys.argv[1]]))"
    done = run(code, str(tmp_path), LEASEHOLD_ETCD=server.program)
    assert done.returncode == 0, done
    assert "2 passed" in done.stdout

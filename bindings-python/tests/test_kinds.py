"""Readers and writers, semaphores, several locks at once, elections, places that are shared, and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
from conftest import Server, run, until
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

import leasehold
from leasehold import _native, aio, testing
from leasehold.opentelemetry import observe
from leasehold.prometheus import Collector

if TYPE_CHECKING:
    from collections.abc import Callable


def test_readers_share_and_a_writer_is_alone(client: leasehold.Client, name: str) -> None:
    lock = client.rwlock(name, timeout=60)
    with lock.read() as one, lock.read() as other:
        assert one.held
        assert other.held
        assert client.lock(name).try_acquire() is None
        with pytest.raises(leasehold.WouldDeadlock), lock.write():
            pytest.fail("the body ran")
        claims = [(one.claim, one.is_holder) for one in lock.read().queue()]
        assert claims == [("shared", True)] * 2
    with lock.write(), pytest.raises(leasehold.WouldDeadlock), lock.read():
        pytest.fail("the body ran")
    with lock.write() as guard:
        assert lock.read().try_acquire() is None
        (holder,) = lock.write().queue()
        assert (holder.claim, holder.token) == ("exclusive", guard.token)


def test_a_writer_is_not_passed_by_readers(client: leasehold.Client, name: str) -> None:
    lock = client.rwlock(name)
    reader = lock.read().acquire()
    writing = lock.write().acquire_future()
    until(lambda: len(lock.read().queue()) == 2, "the writer waits")
    late = lock.read().acquire_future()
    until(lambda: len(lock.read().queue()) == 3, "the late reader waits")
    assert [one.is_holder for one in lock.read().queue()] == [True, False, False]
    reader.release()
    writer = writing.result(60)
    assert not late.done()
    writer.release()
    late.result(60).release()


def test_a_semaphore_has_so_many(client: leasehold.Client, name: str) -> None:
    semaphore = client.semaphore(name, 3)
    with semaphore.permits(2) as two, semaphore as one:
        assert two.token != one.token
        assert semaphore.try_acquire() is None
        with pytest.raises(leasehold.WouldDeadlock), semaphore:
            pytest.fail("three are taken, by this thread")
        assert [one.claim for one in semaphore.queue()] == [leasehold.Permits(2, 3), leasehold.Permits(1, 3)]
    with pytest.raises(leasehold.LimitMismatch), semaphore.permits(1), client.semaphore(name, 4):
        pytest.fail("the body ran")
    for permits, limit in ((0, 3), (4, 3), (1, 0), (1, 2**31)):
        with pytest.raises(leasehold.InvalidArgument):
            client.semaphore(name, limit, permits=permits).acquire()
    for bad in (-1, 2**32, 1.5, "1", True, None):
        with pytest.raises(leasehold.InvalidArgument, match="whole number"):
            client.semaphore(name, bad)  # type: ignore[arg-type]


def test_several_at_once_in_any_order(client: leasehold.Client, server: Server, name: str) -> None:
    one, other = client.lock(f"{name}/1"), client.lock(f"{name}/2")
    rounds: list[int] = []

    def work(*locks: leasehold.Lock) -> None:
        for number in range(20):
            with client.all(*locks) as guard:
                assert len(guard.keys) == 2
                assert guard.key == guard.keys[0]
                rounds.append(number)

    threads = [threading.Thread(target=work, args=order) for order in ((one, other), (other, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rounds) == 40
    both = client.all(one, client.rwlock(f"{name}/2").read(), f"{name}/3", timeout=60)
    assert both.names == (f"{name}/1", f"{name}/2", f"{name}/3")
    with both:
        assert one.try_acquire() is None
        with client.rwlock(f"{name}/2").read():
            pass
        with pytest.raises(leasehold.WouldDeadlock, match="/3"), client.all("x", f"{name}/3"):
            pytest.fail("the body ran")
        assert both.try_acquire() is None
    assert server.keys(f"{name}/") == []
    with leasehold.Client(server.url) as stranger, pytest.raises(leasehold.InvalidArgument, match="another client"):
        client.all(one, stranger.lock("x"))
    for bad in ((), (one, one), tuple(f"{name}/{number}" for number in range(33))):
        with pytest.raises(leasehold.InvalidArgument):
            client.all(*bad).acquire()
    with pytest.raises(leasehold.LockLost), both as guard:
        testing.lose(client, guard)


def test_a_place_that_is_shared_or_stays(client: leasehold.Client, server: Server, name: str) -> None:
    lock = client.lock(name, local_first=leasehold.LocalFirst(turns=4, time=1), linger=0.3)
    with lock as first:
        pass
    with lock as second:
        assert (second.token, second.sequence) == (first.token, first.sequence + 1)
    until(lambda: server.keys(f"{name}/") == [], "it does not stay for ever")
    with client.lock(name, local_first=True, linger=0) as third:
        assert third.token > first.token
    never = leasehold.LocalFirst(turns=0)
    for bad in ({"local_first": never}, {"linger": 3601}, {"local_first": True, "renew": False}):
        options: Any = bad
        with pytest.raises(leasehold.InvalidArgument):
            client.lock(name, **options).acquire()
    with pytest.raises(leasehold.InvalidArgument):
        client.rwlock(name, linger=1).read().acquire()
    with pytest.raises(TypeError, match="tll"):
        client.lock(name, tll=5)  # type: ignore[call-arg]


def test_an_election(client: leasehold.Client, name: str) -> None:
    election = client.election(name, timeout=60)
    assert election.leader() is None
    seen: list[bytes | None] = []
    observation = election.observe()

    def watch() -> None:
        seen.extend(None if leader is None else leader.value for leader in observation)

    thread = threading.Thread(target=watch)
    thread.start()
    until(lambda: _native.live()[2] >= 1, "it observes")
    with election.campaign("one") as leadership:
        leader = election.leader()
        assert leader is not None
        assert (leader.token, leader.value, leader.key) == (leadership.token, b"one", leadership.key)
        with pytest.raises(leasehold.LockTimeout):
            election.campaign("two", 0)
        leadership.proclaim(b"uno")
        after = election.leader()
        assert after is not None
        assert after.revision > leader.revision
    with pytest.raises((leasehold.NotHeld, leasehold.LockLost)):
        leadership.proclaim("three")
    with pytest.raises(leasehold.InvalidArgument):
        election.campaign(b"x" * 1_500_001)
    with client.lock(name + "/not"):
        pass
    observation.close()
    thread.join(60)
    assert not thread.is_alive()
    assert seen[-1] is None or seen[-1] == b"uno"
    with pytest.raises(StopIteration):
        next(observation)


LOOPS: dict[str, Callable[..., None]] = {
    "asyncio": lambda main: asyncio.run(main()),
    "trio": trio.run,
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_campaign_that_is_cancelled_has_withdrawn(loop: str) -> None:
    """In memory: an etcd that stands still for a second would not confirm it in time."""
    client = leasehold.Client("memory://")
    election = aio.Client.of(client).election("e")

    async def within(seconds: float) -> aio.Leadership | None:
        leadership = None
        if loop == "trio":
            with trio.move_on_after(seconds):
                leadership = await election.campaign()
        else:
            with contextlib.suppress(asyncio.TimeoutError):
                leadership = await asyncio.wait_for(election.campaign(), seconds)
        return leadership

    async def main() -> None:
        async with await election.campaign():
            for _ in range(5):
                assert await within(0.01) is None
                assert len(client.lock("e").queue()) == 1, "the candidate is gone when the task goes on"
        for number in range(20):
            # At any moment of one that wins.
            leadership = await within(number / 10_000)
            if leadership is not None:
                await leadership.release()
            assert client.lock("e").queue() == [], number

    LOOPS[loop](main)
    client.close()


def test_every_change_is_observed(client: leasehold.Client, name: str) -> None:
    election = client.election(name)
    with election.observe() as observation:
        assert next(observation) is None
        leadership = election.campaign("a")
        leader = next(observation)
        assert leader is not None
        assert (leader.value, observation.has_gap) == (b"a", False)
        for value in (b"b", b"c"):
            leadership.proclaim(value)
            leader = next(observation)
            assert leader is not None
            assert leader.value == value
        leadership.release()
        assert next(observation) is None


def test_an_observation_ends_with_its_client_or_when_it_is_forgotten(server: Server, name: str) -> None:
    gc.collect()
    before = _native.live()[2]
    client = leasehold.Client(server.url)
    forgotten = client.election(name).observe()
    assert next(forgotten) is None
    assert _native.live()[2] == before + 1
    del forgotten
    gc.collect()
    until(lambda: _native.live()[2] == before, "nobody observes any more")
    observation = client.election(name).observe()
    assert next(observation) is None
    client.close()
    assert list(observation) == []
    with pytest.raises(leasehold.ClientClosed):
        next(client.election(name).observe())


def test_ctrl_c_ends_a_wait_for_a_change(server: Server, name: str) -> None:
    code = """
import signal, sys
import leasehold
signal.signal(signal.SIGINT, signal.default_int_handler)
observation = leasehold.Client(sys.argv[1]).election(sys.argv[2]).observe()
for leader in observation: print(leader, flush=True)
"""
    command = [sys.executable, "-B", "-c", code, server.url, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "None\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in error


def with_asyncio(main: Callable[[], Any]) -> None:
    asyncio.run(main())


@pytest.mark.parametrize("run_loop", [with_asyncio, trio.run])
def test_all_of_it_on_loops(run_loop: Callable[[Any], None], server: Server, name: str) -> None:
    async def main() -> None:
        async with aio.Client(server.url, ttl=5) as client:
            lock = client.rwlock(name, timeout=60)
            async with lock.read() as one, lock.read() as other:
                assert one.held
                assert other.held
                assert await lock.write().try_acquire() is None
                assert aio.current_guard() is other
            async with client.semaphore(f"{name}/s", 2).permits(2), client.all(f"{name}/a", f"{name}/b") as guard:
                assert len(guard.keys) == 2
                assert await client.semaphore(f"{name}/s", 2).try_acquire() is None
            async with client.lock(f"{name}/l", local_first=True, linger=0.2) as first:
                pass
            async with client.lock(f"{name}/l", local_first=True, linger=0.2, cancel_on_loss=True) as second:
                assert (second.token, second.sequence) == (first.token, 1)
            election = client.election(f"{name}/e", timeout=60)
            seen: list[bytes | None] = []
            observation = election.observe()
            async for leader in observation:
                seen.append(None if leader is None else leader.value)
                if len(seen) == 1:
                    leadership = await election.campaign("a")
                elif len(seen) == 2:
                    await leadership.proclaim("b")
                elif len(seen) == 3:
                    await leadership.release()
                else:
                    break
            await observation.aclose()
            assert seen == [None, b"a", b"b", None]
            assert await election.leader() is None
            assert [leader async for leader in observation] == []
            before = _native.live()[2]
            forgotten = election.observe()
            assert await forgotten.__anext__() is None
            del forgotten
            gc.collect()
            until(lambda: _native.live()[2] <= before, "nobody observes any more")
            assert "leasehold_held" in str(client.metrics())

    run_loop(main)
    until(lambda: server.keys(f"{name}") == [], "nothing is left")


def test_cancelled_while_it_observes_it_loses_nothing() -> None:
    async def main() -> None:
        client = aio.Client("memory://")
        election = client.election("e")
        observation = election.observe()
        assert await observation.__anext__() is None
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(observation.__anext__(), 0.01)
        async with await election.campaign("a"):
            leader = await asyncio.wait_for(observation.__anext__(), 60)
            assert leader is not None
            assert leader.value == b"a"
        waiting = asyncio.create_task(observation.__anext__())
        await asyncio.wait_for(waiting, 60)
        waiting = asyncio.create_task(observation.__anext__())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


def test_metrics(client: leasehold.Client, name: str) -> None:
    with client.lock(name):
        metrics = client.metrics()
    families = {family.name: family for family in metrics.families}
    (held,) = families["leasehold_held"].samples
    assert (held.value, held.labels, families["leasehold_held"].kind) == (1, {}, "gauge")
    (acquired,) = families["leasehold_acquire_seconds"].samples
    assert isinstance(acquired.value, leasehold.Histogram)
    assert (acquired.labels, acquired.value.count) == ({"outcome": "ok"}, 1)
    assert acquired.value.sum > 0
    assert str(metrics).endswith("# EOF\n")


def test_metrics_for_prometheus(client: leasehold.Client, name: str) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(client, {"client": "one"}))
    other = leasehold.Client("memory://")
    with client.lock(name):
        assert registry.get_sample_value("leasehold_held", {"client": "one"}) == 1
        acquired = {"client": "one", "outcome": "ok"}
        assert registry.get_sample_value("leasehold_acquire_seconds_count", acquired) == 1
        assert registry.get_sample_value("leasehold_acquire_seconds_bucket", {**acquired, "le": "+Inf"}) == 1
        assert registry.get_sample_value("leasehold_lost_total", {"client": "one", "reason": "expired"}) == 0
        theirs = {line for line in generate_latest(registry).decode().splitlines() if "request" not in line}
        assert any(line.startswith("# TYPE leasehold_acquire_seconds histogram") for line in theirs)
    other.close()


def test_metrics_for_opentelemetry(client: leasehold.Client, name: str) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("leasehold")
    observe(client, meter, {"client": "one"})
    with client.lock(name):
        data = reader.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    (held,) = metrics["leasehold_held"]
    assert (held.value, held.attributes) == (1, {"client": "one"})  # type: ignore[union-attr]
    (acquired,) = metrics["leasehold_acquire_seconds_count"]
    assert acquired.value == 1  # type: ignore[union-attr]
    (seconds,) = metrics["leasehold_acquire_seconds_sum"]
    assert seconds.value > 0  # type: ignore[union-attr]


def test_under_greenlets(server: Server, name: str) -> None:
    code = """
from gevent import monkey
monkey.patch_all()
import gevent, sys
import leasehold
client = leasehold.Client(sys.argv[1])
election = client.election(sys.argv[2])
seen = []
def watch():
    for leader in election.observe():
        seen.append(leader and leader.value)
        if len(seen) == 3: return
watcher = gevent.spawn(watch)
while not seen: gevent.sleep(0.001)
with election.campaign("a"): pass
watcher.get(timeout=60)
assert seen == [None, b"a", None], seen
with client.rwlock("/r").read(), client.rwlock("/r").read(), client.semaphore("/s", 1), client.all("/a", "/b"): pass
print("well")
"""
    done = run(code, server.url, name)
    assert done.stdout == "well\n", done

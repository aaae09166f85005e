"""The blocking API, against a real etcd."""

from __future__ import annotations

import concurrent.futures
import gc
import logging
import math
import os
import pickle
import socket
import threading
import warnings
import weakref
from concurrent.futures import CancelledError
from datetime import datetime, timedelta, timezone

import pytest
from conftest import Server, until

import leasehold
from leasehold import testing


def test_with_holds_and_releases(client: leasehold.Client, server: Server, name: str) -> None:
    with client.lock(name, timeout=60) as guard:
        assert guard.held
        assert 0 < guard.remaining <= 5
        assert server.keys(name) == [guard.key]
        assert guard.key == f"{name}/{guard.lease}-1" or guard.key.startswith(f"{name}/{guard.lease}")
        assert (guard.name, guard.sequence) == (name, 0)
        assert client.lock(name).locked()
        assert client.lock(name).try_acquire() is None
    assert not guard.held
    assert guard.remaining == 0
    assert server.keys(name) == []


def test_tokens_grow_and_the_queue_is_shown(client: leasehold.Client, name: str) -> None:
    first = client.lock(name).acquire()
    waiting = client.lock(name).acquire_future()
    until(lambda: len(client.lock(name).queue()) == 2, "both are in the queue")
    holder, waiter = client.lock(name).queue()
    assert (holder.token, holder.identity, holder.foreign) == (first.token, client.identity, False)
    assert holder.pid == waiter.pid
    assert holder.version == leasehold.__version__
    first.release()
    second = waiting.result(60)
    assert second.token == waiter.token > first.token
    second.release()


def test_a_timeout_raises_and_the_body_does_not_run(client: leasehold.Client, server: Server, name: str) -> None:
    with client.lock(name).acquire() as guard:
        other = leasehold.Client(server.url)
        with pytest.raises(leasehold.LockTimeout) as raised, other.lock(name, timeout=0.05):
            pytest.fail("the body ran")
        assert isinstance(raised.value, TimeoutError)
        assert raised.value.code is leasehold.Code.NOT_ACQUIRED
        other.close()
        assert server.keys(name) == [guard.key]


def test_the_body_runs_without_a_lock_never(client: leasehold.Client, name: str) -> None:
    client.close()
    with pytest.raises(leasehold.ClientClosed), client.lock(name):
        pytest.fail("the body ran")


def test_inside_the_same_name_it_would_deadlock(client: leasehold.Client, server: Server, name: str) -> None:
    with client.lock(name), pytest.raises(leasehold.WouldDeadlock, match=name.rpartition(":")[2]), client.lock(name):
        pytest.fail("the body ran")
    same = leasehold.Client(server.url)
    with client.lock(name), pytest.raises(leasehold.WouldDeadlock), same.lock(name):
        pytest.fail("another client object changes nothing")
    same.close()
    # After it, everything is as before; and other threads are not concerned.
    with client.lock(name):
        failed: list[BaseException] = []

        def wait() -> None:
            try:
                with client.lock(name, timeout=0.05):
                    pass
            except leasehold.LockTimeout as error:
                failed.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        assert len(failed) == 1


def test_a_block_may_be_left_in_another_thread(client: leasehold.Client, name: str) -> None:
    lock = client.lock(name)
    guard = lock.__enter__()
    thread = threading.Thread(target=lock.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert not guard.held
    with lock:
        pass


def test_leaving_after_a_loss_raises_unless_the_body_failed(client: leasehold.Client, name: str) -> None:
    with pytest.raises(leasehold.LockLost) as raised, client.lock(name) as guard:
        testing.lose(client, guard)
    assert raised.value.reason is leasehold.LostReason.KEY_DELETED
    with pytest.raises(ZeroDivisionError), client.lock(name) as guard:
        testing.lose(client, guard)
        raise ZeroDivisionError


def test_release_in_the_body_is_no_mistake_but_twice_is(client: leasehold.Client, name: str) -> None:
    with client.lock(name) as guard:
        guard.release()
    with pytest.raises(leasehold.NotHeld):
        guard.release()


def test_a_loss_is_told_to_events_and_callbacks(client: leasehold.Client, name: str) -> None:
    guard = client.lock(name).acquire()
    reasons: list[leasehold.LostReason] = []
    guard.on_lost(reasons.append)
    lost = guard.lost
    assert not lost.is_set()
    testing.lose(client, guard)
    assert lost.wait(60)
    assert guard.lost is lost
    until(lambda: reasons == [leasehold.LostReason.KEY_DELETED], "the callback ran")
    with pytest.raises(leasehold.LockLost):
        guard.put("/x", "1")


def test_a_release_is_no_loss(client: leasehold.Client, name: str) -> None:
    guard = client.lock(name).acquire()
    lost = guard.lost
    guard.release()
    with client.lock(name):  # long enough for news to travel
        pass
    assert not lost.is_set()


def test_closing_loses_what_is_held(server: Server, name: str) -> None:
    client = leasehold.Client(server.url)
    states: list[leasehold.SessionState] = []
    client.on_state(states.append)
    guard = client.lock(name).acquire()
    lost = guard.lost
    client.close()
    client.close()
    assert lost.wait(60)
    assert server.keys(name) == []
    with pytest.raises(leasehold.LockLost) as raised:
        guard.release()
    assert raised.value.reason is leasehold.LostReason.CLIENT_CLOSED


def test_guarded_writes(client: leasehold.Client, name: str) -> None:
    with client.lock(name) as guard:
        key = f"/data{name}"
        revision = guard.put(key, "1")
        assert revision > guard.token
        done = guard.txn().get(key).put(f"{key}/other", b"2").get(f"{key}/other").delete(key).commit()
        assert (done.values, done.deleted) == ((b"1", b"2"), 1)
        assert not guard.delete(key)
        with pytest.raises(leasehold.InvalidArgument, match="duplicate"):
            guard.txn().put(key, "3").put(key, "4").commit()
        assert guard.txn().get(key).commit().values == (None,)


def test_extend_and_renew_false(client: leasehold.Client, name: str) -> None:
    with client.lock(name, ttl=2, renew=False) as guard:
        assert guard.remaining <= 2
        guard.extend(9)
        assert guard.held
        with pytest.raises(leasehold.InvalidArgument):
            guard.extend(0)


@pytest.mark.parametrize("value", [-1, float("nan"), float("-inf"), "5", True, 1e300, timedelta(seconds=-1)])
def test_bad_spans_are_refused_at_the_door(client: leasehold.Client, name: str, value: float) -> None:
    with pytest.raises(leasehold.InvalidArgument, match="timeout"):
        client.lock(name, timeout=value)
    with pytest.raises(leasehold.InvalidArgument, match="timeout"):
        client.lock(name).acquire(timeout=value)
    with pytest.raises(leasehold.InvalidArgument, match="TTL"):
        leasehold.Client("http://127.0.0.1:1", ttl=value)
    with pytest.raises(leasehold.InvalidArgument, match="TTL"):
        leasehold.Client("http://127.0.0.1:1", ttl=math.inf)


def test_none_and_inf_wait_as_long_as_it_takes(client: leasehold.Client, server: Server, name: str) -> None:
    lock = client.lock(name, timeout=timedelta(milliseconds=1))
    guard = lock.acquire(None)
    with pytest.raises(leasehold.LockTimeout):
        lock.acquire()
    for endless in (None, math.inf):
        waiting = lock.acquire_future(timeout=endless)
        until(lambda: len(server.keys(name)) == 2, "it waits")
        guard.release()
        guard = waiting.result(60)
    (holder,) = lock.queue()
    assert holder.since is not None
    assert abs(datetime.now(timezone.utc) - holder.since) < timedelta(minutes=1)
    guard.extend(timedelta(seconds=20))
    guard.release()
    assert weakref.ref(lock)() is lock


def test_bad_options_fail_at_construction_and_show_no_secret() -> None:
    with pytest.raises(leasehold.InvalidArgument) as raised:
        leasehold.Client("http://root:s3cret@127.0.0.1:1")
    assert "s3cret" not in str(raised.value)
    with pytest.raises(ValueError, match="user"):
        leasehold.Client("http://127.0.0.1:1", password="s3cret")
    away = {"user": "root", "password": "s3cret"}
    with pytest.raises(leasehold.InvalidArgument, match="plaintext_password") as raised:
        leasehold.Client("http://192.0.2.1:1", **away)
    assert "s3cret" not in str(raised.value)
    leasehold.Client("http://192.0.2.1:1", plaintext_password=True, **away).close()
    with pytest.raises(leasehold.InvalidArgument, match="nowhere"):
        leasehold.Client("https://127.0.0.1:1", ca_file="/nowhere")


def test_an_unreachable_etcd_fails_at_the_first_operation() -> None:
    with leasehold.Client("http://127.0.0.1:1", request_timeout=0.2) as client:
        with pytest.raises(leasehold.Unavailable):
            client.ping()
        with pytest.raises(leasehold.Unavailable):
            client.lock("/x").acquire()


def test_cancel_from_another_thread(client: leasehold.Client, server: Server, name: str) -> None:
    with client.lock(name) as guard:
        cancel = leasehold.Cancel()

        def end() -> None:
            until(lambda: len(server.keys(name)) == 2, "it waits")
            cancel.cancel()

        threading.Thread(target=end).start()
        with pytest.raises(leasehold.OperationCancelled):
            client.lock(name).acquire(cancel=cancel)
        assert cancel.cancelled
        assert server.keys(name) == [guard.key]


def test_futures(client: leasehold.Client, server: Server, name: str) -> None:
    guard = client.lock(name).acquire_future().result(60)
    waiting = client.lock(name).acquire_future()
    until(lambda: len(server.keys(name)) == 2, "it waits")
    assert waiting.cancel()
    until(lambda: server.keys(name) == [guard.key], "its place is given up")
    with pytest.raises(CancelledError):
        waiting.result()
    timed_out = client.lock(name).acquire_future(timeout=0.3)
    assert isinstance(timed_out.exception(5), leasehold.LockTimeout)
    called = threading.Event()
    forgotten = client.lock(name).acquire_future()
    forgotten.add_done_callback(lambda _: called.set())
    guard.release()
    assert called.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del forgotten
        gc.collect()
    until(lambda: server.keys(name) == [], "a guard that nobody took is released")


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_cancelled_future_counts_as_done(client: leasehold.Client, server: Server, name: str, is_taken: bool) -> None:
    with client.lock(name if is_taken else f"{name}/other"):
        futures = [client.lock(name).acquire_future() for _ in range(3)]
        is_cancelled = [future.cancel() for future in futures]
        assert all(is_cancelled) or not is_taken
        done, pending = concurrent.futures.wait(futures, 10)
        assert (len(done), len(pending)) == (3, 0)
        assert len(list(concurrent.futures.as_completed(futures, 10))) == 3
        assert [future.cancelled() for future in futures] == is_cancelled
        futures.clear()
        done.clear()
        until(lambda: len(server.keys(f"{name}/")) <= 1, "the others have given up")


def test_synchronized(client: leasehold.Client, server: Server) -> None:
    @client.synchronized("/sync/{job_id}/{options[0]}", timeout=60)
    def work(job_id: int, *options: str) -> list[str]:
        """Works."""
        return server.keys("/sync/")

    assert work.__doc__ == "Works."
    (key,) = work(7, "fast")
    assert key.startswith("/sync/7/fast/")
    with pytest.raises(leasehold.InvalidArgument, match="nothing"):
        client.synchronized("/{nothing}")(work)

    async def coroutine() -> None: ...

    with pytest.raises(leasehold.InvalidArgument, match="aio"):
        client.synchronized("/x")(coroutine)


def test_a_forgotten_guard_warns_and_stays_held(server: Server, name: str) -> None:
    client = leasehold.Client(server.url)
    guard = client.lock(name).acquire()
    with pytest.warns(ResourceWarning, match="never released"):
        del guard
        gc.collect()
    with pytest.raises(leasehold.LockTimeout):
        client.lock(name).acquire(timeout=0.1)
    assert len(server.keys(name)) == 1
    client.close()
    assert server.keys(name) == []


def test_guards_and_clients_do_not_travel(client: leasehold.Client, name: str) -> None:
    with client.lock(name) as guard, pytest.raises(TypeError, match="token"):
        pickle.dumps(guard)
    with pytest.raises(TypeError, match="process"):
        pickle.dumps(client)


def test_guards_work_in_any_thread(client: leasehold.Client, name: str) -> None:
    guard = client.lock(name).acquire()
    thread = threading.Thread(target=guard.release)
    thread.start()
    thread.join()
    assert not guard.held


def test_logging(server: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "leasehold")
    with leasehold.Client(server.url) as client, client.lock(name):
        pass
    until(lambda: any(record.name.startswith("leasehold.") for record in caplog.records), "the core has spoken")
    caplog.set_level(logging.CRITICAL + 1, "leasehold")
    with leasehold.Client(server.url) as client, client.lock(name):
        pass
    caplog.clear()
    with leasehold.Client(server.url) as client, client.lock(name):
        pass
    assert not caplog.records


def test_many_threads_count_right(client: leasehold.Client, name: str) -> None:
    counted = 0

    def count() -> None:
        nonlocal counted
        with client.lock(name):
            seen = counted
            os.sched_yield()
            counted = seen + 1

    threads = [threading.Thread(target=count) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == len(threads)


def test_a_memory_client_of_its_own_shares_with_nobody() -> None:
    with leasehold.Client("memory://") as one, leasehold.Client("memory://") as other:
        assert one.lock("a").acquire().held
        assert other.lock("a").acquire().held


def test_testing_starts_an_etcd() -> None:
    with testing.Etcd() as etcd, leasehold.Client(etcd.url) as client, client.lock("/x") as guard:
        assert guard.held
    with pytest.raises(leasehold.Unsupported, match="did not come up"):
        testing.Etcd("/bin/false")


def test_nobody_else_is_given_the_ports_of_an_etcd_that_is_down() -> None:
    """Seen to fail with ports that are given back before etcd is started."""
    with testing.Etcd() as etcd, socket.socket() as other:
        etcd._process.kill()
        etcd._process.wait()
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(etcd.url.rpartition(":")[2])))


pytest_plugins = ["leasehold.testing"]


def test_the_fixture(leasehold_etcd: testing.Etcd) -> None:
    with leasehold.Client(leasehold_etcd.url) as client, client.lock("/x"):
        pass

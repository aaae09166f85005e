"""What the tests of other locks ask about behaviour, asked of `as_lock()`, in words of our own.

CPython's `lock_tests.py` is for `threading.Lock` and, with `reentrant`, `threading.RLock`; redis-py's `test_lock.py` for its
lock. Each case has the name that it has there. docs/migrating-python.md lists them all, and says why not where one makes no
sense.
"""

from __future__ import annotations

import gc
import re
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT, Server, until

import leasehold
from leasehold import testing

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ROOT / "docs" / "migrating-python.md"

# CPython asks these of both kinds.
both_kinds = pytest.mark.parametrize("reentrant", [False, True], ids=["Lock", "RLock"])


@pytest.fixture
def make(client: leasehold.Client, name: str) -> Callable[..., leasehold.ThreadLock]:
    """A lock of the test's name."""
    return lambda reentrant=False, **options: client.lock(name, **options).as_lock(reentrant=reentrant)


def in_threads(function: Callable[[], Any], count: int = 1) -> list[Any]:
    """What it brought in threads of its own, exceptions included."""
    brought: list[Any] = []

    def run() -> None:
        try:
            brought.append(function())
        except Exception as error:
            brought.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return brought


@both_kinds
def test_cpython_constructor(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    del lock


@both_kinds
def test_cpython_repr(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    assert "ThreadLock" in repr(lock)
    assert lock._lock.name in repr(lock)


@both_kinds
def test_cpython_locked_repr(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    assert "not held" in repr(lock)
    with lock:
        assert " held" in repr(lock)
        assert "not held" not in repr(lock)
    assert "not held" in repr(lock)


@both_kinds
def test_cpython_acquire_release(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    assert lock.acquire() is True
    lock.release()
    assert not lock.locked()


@both_kinds
def test_cpython_try_acquire(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    assert lock.acquire(False) is True
    lock.release()


@both_kinds
def test_cpython_try_acquire_contended(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    with lock:
        assert in_threads(lambda: lock.acquire(False)) == [False]


@both_kinds
def test_cpython_acquire_contended(make: Any, server: Server, name: str, reentrant: bool) -> None:
    lock, through = make(reentrant), []

    def pass_through() -> None:
        lock.acquire()
        through.append(1)
        lock.release()

    lock.acquire()
    threads = [threading.Thread(target=pass_through) for _ in range(5)]
    for thread in threads:
        thread.start()
    until(lambda: len(server.keys(f"{name}/")) == 6, "they wait")
    assert through == []
    lock.release()
    for thread in threads:
        thread.join()
    assert len(through) == 5


@both_kinds
def test_cpython_with(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)

    def pass_through() -> None:
        lock.acquire()
        lock.release()

    with lock:
        pass
    assert in_threads(pass_through) == [None]
    with pytest.raises(TypeError), lock:
        raise TypeError
    assert in_threads(pass_through) == [None]


@both_kinds
def test_cpython_thread_leak(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)

    def pass_through() -> None:
        with lock:
            pass

    pass_through()
    before = threading.active_count()
    in_threads(pass_through, 15)
    assert threading.active_count() == before


@both_kinds
def test_cpython_timeout(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    for wrong in ((0, 1), (True, -100), (True, 1e100), (True, float("nan"))):
        with pytest.raises(ValueError, match="time"):
            lock.acquire(*wrong)
    assert lock.acquire(timeout=threading.TIMEOUT_MAX)
    lock.release()
    assert lock.acquire(timeout=60)

    def wait() -> float | bool:
        began = time.monotonic()
        return not lock.acquire(timeout=0.05) and time.monotonic() - began

    (waited,) = in_threads(wait)
    assert waited >= 0.05
    lock.release()


@both_kinds
def test_cpython_weakref_exists(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    assert weakref.ref(lock)() is lock


@both_kinds
def test_cpython_weakref_deleted(make: Any, reentrant: bool) -> None:
    lock = make(reentrant)
    seen = weakref.ref(lock)
    del lock
    gc.collect()
    assert seen() is None


def test_cpython_reacquire(make: Any, server: Server, name: str) -> None:
    lock, phase = make(), []

    def twice() -> None:
        lock.acquire()
        phase.append(1)
        lock.acquire()
        phase.append(2)

    thread = threading.Thread(target=twice)
    thread.start()
    until(lambda: len(server.keys(f"{name}/")) == 2, "it waits for itself")
    assert phase == [1]
    lock.release()
    thread.join()
    assert phase == [1, 2]
    lock.release()


def test_cpython_different_thread(make: Any) -> None:
    lock = make()
    lock.acquire()
    assert in_threads(lock.release) == [None]
    assert lock.acquire(False)
    lock.release()


def test_cpython_state_after_timeout(make: Any) -> None:
    lock = make()
    lock.acquire()
    assert not lock.acquire(timeout=0.01)
    lock.release()
    assert not lock.locked()
    assert lock.acquire(blocking=False)
    lock.release()


def test_cpython_rlock_reacquire(make: Any) -> None:
    lock = make(True)
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.acquire()
    lock.release()
    assert lock.owned()
    lock.release()
    assert not lock.locked()


def test_cpython_rlock_release_unacquired(make: Any) -> None:
    lock = make(True)
    with pytest.raises(RuntimeError):
        lock.release()
    for _ in range(2):
        lock.acquire()
    for _ in range(2):
        lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


def test_cpython_rlock_different_thread(make: Any) -> None:
    lock = make(True)
    with lock:
        (failed,) = in_threads(lock.release)
        assert isinstance(failed, RuntimeError)
        assert lock.owned()


def test_redis_lock(make: Any, server: Server, name: str) -> None:
    lock = make()
    assert lock.acquire(blocking=False)
    assert server.keys(f"{name}/") == [lock.guard.key]
    lock.release()
    assert server.keys(f"{name}/") == []


def test_redis_locked(make: Any) -> None:
    lock, other = make(), make()
    assert not lock.locked()
    lock.acquire(blocking=False)
    assert lock.locked()
    assert other.locked(), "whoever has it"
    lock.release()
    assert not lock.locked()
    assert not other.locked()


def test_redis_owned(make: Any) -> None:
    lock, other = make(), make()
    assert not lock.owned()
    lock.acquire(blocking=False)
    assert lock.owned()
    assert not other.owned()
    lock.release()
    assert not lock.owned()


def test_redis_competing_locks(make: Any) -> None:
    one, other = make(), make()
    assert one.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    one.release()
    assert other.acquire(blocking=False)
    assert not one.acquire(blocking=False)
    other.release()


@pytest.mark.parametrize("ttl", [10, 9.5])
def test_redis_timeout(make: Any, ttl: float) -> None:
    """Here it is the TTL, in whole seconds, rounded up."""
    lock = make(ttl=ttl)
    assert lock.acquire(blocking=False)
    assert 0 < lock.guard.remaining <= 10
    lock.release()


def test_redis_blocking_timeout(make: Any) -> None:
    lock, other = make(), make(timeout=0.2)
    assert lock.acquire(blocking=False)
    began = time.monotonic()
    assert not other.acquire()
    assert time.monotonic() - began >= 0.2
    lock.release()


def test_redis_context_manager(make: Any, server: Server, name: str) -> None:
    with make(timeout=60):
        assert len(server.keys(f"{name}/")) == 1
    assert server.keys(f"{name}/") == []


def test_redis_context_manager_raises_when_locked_not_acquired(make: Any) -> None:
    with make(), pytest.raises(leasehold.LockTimeout), make(timeout=0.1):
        pytest.fail("the body ran")


def test_redis_releasing_unlocked_lock_raises_error(make: Any) -> None:
    with pytest.raises(leasehold.NotHeld):
        make().release()


def test_redis_releasing_lock_no_longer_owned_raises_error(client: leasehold.Client, make: Any) -> None:
    lock = make()
    lock.acquire(blocking=False)
    testing.lose(client, lock.guard)
    with pytest.raises(leasehold.LockLost):
        lock.release()
    with pytest.raises(leasehold.NotHeld):
        lock.release()  # It is forgotten all the same.


@pytest.mark.parametrize("seconds", [20, 20.0])
def test_redis_extend_lock(make: Any, seconds: float) -> None:
    lock = make(ttl=10, renew=False)
    assert lock.acquire(blocking=False)
    lock.guard.extend(seconds)
    assert lock.owned()
    assert 0 < lock.guard.remaining <= 10, "renewed for so long, ten seconds at a time"
    lock.release()


def test_redis_extending_unlocked_lock_raises_error(make: Any) -> None:
    lock = make()
    assert lock.guard is None, "there is nothing to extend"
    lock.acquire()
    guard = lock.guard
    lock.release()
    with pytest.raises(leasehold.NotHeld):
        guard.extend(10)


def test_redis_extending_lock_no_longer_owned_raises_error(client: leasehold.Client, make: Any) -> None:
    lock = make()
    lock.acquire()
    guard = lock.guard
    testing.lose(client, guard)
    with pytest.raises(leasehold.LockLost):
        guard.extend(10)
    with pytest.raises(leasehold.LockLost):
        lock.release()


def test_redis_lock_error_gives_correct_lock_name(make: Any, name: str) -> None:
    with make(), pytest.raises(leasehold.LockTimeout, match=re.escape(name)), make(timeout=0):
        pytest.fail("the body ran")


ROW = re.compile(r"^\| (`[^|]*`) \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize(("theirs", "title"), [("cpython", "CPython's"), ("redis", "redis-py's")])
def test_the_page_lists_what_is_played(theirs: str, title: str) -> None:
    """What it calls the same, or right in another way, has a test here, and the other way round."""
    text = PAGE.read_text()
    section = text[text.index(f"### {title} tests") :]
    section = section[: section.find("\n### ", 1)] if "\n### " in section[1:] else section
    listed = {
        case
        for cases, verdict in ROW.findall(section)
        if verdict.startswith(("pass", "otherwise"))
        for case in re.findall(r"`(\w+)`", cases)
    }
    prefix = f"test_{theirs}_"
    played = {name.removeprefix(prefix) for name in globals() if name.startswith(prefix)}
    assert listed == played

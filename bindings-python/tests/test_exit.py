"""The end of the interpreter with operations pending: no crash, no hang, and what was held is released."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from conftest import Server, run, size, until

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """
import asyncio, os, signal, sys, threading
import leasehold
from leasehold import aio
url, name = sys.argv[1:]
# A shell that starts the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

PENDING = {
    "sync": """
client = leasehold.Client(url)
guard = client.lock(name).acquire()
futures = [client.lock(name).acquire_future() for _ in range(5)]
guard.on_lost(print)
""",
    "asyncio": """
async def main():
    client = aio.Client(url)
    guard = await client.lock(name).acquire()
    guard.on_lost(lambda reason: None)
    tasks = [asyncio.create_task(client.lock(name).acquire()) for _ in range(5)]
    await asyncio.sleep(0)
    globals().update(locals())
asyncio.run(main())
""",
    "closed loop": """
loop = asyncio.new_event_loop()
client = aio.Client(url)
guard = loop.run_until_complete(client.lock(name).acquire())
tasks = [loop.create_task(client.lock(name).acquire()) for _ in range(5)]
loop.run_until_complete(asyncio.sleep(0))
loop.close()
""",
    "daemon thread": """
client = leasehold.Client(url)
guard = client.lock(name).acquire()
for _ in range(5):
    threading.Thread(target=client.lock(name).acquire, daemon=True).start()
""",
    "os._exit in a thread": """
client = leasehold.Client(url)
threads = [threading.Thread(target=client.lock(name).acquire, daemon=True) for _ in range(5)]
for thread in threads: thread.start()
sys.stdout.flush()
threading.Thread(target=lambda: os._exit(0)).start()
threading.Event().wait()
""",
}


@pytest.mark.parametrize("kind", PENDING)
def test_exit_with_operations_pending(kind: str, server: Server, name: str) -> None:
    for number in range(size(5, 50)):
        done = run(HEAD + PENDING[kind], server.url, f"{name}{number}")
        assert done.returncode == 0, (number, done)
        noise = [line for line in done.stderr.splitlines() if "never awaited" not in line and "destroyed" not in line]
        assert not any("panic" in line or "Fatal" in line for line in noise), done
        if "_exit" not in kind:
            assert server.keys(f"{name}{number}/") == [], "what was held and waited for was released at the exit"


def test_release_at_exit_is_bounded_and_can_be_switched_off(server: Server, name: str) -> None:
    off = run(HEAD + "leasehold.release_at_exit(None)" + PENDING["sync"], server.url, name)
    assert off.returncode == 0, off
    assert server.keys(name), "left as by a crash"
    unreachable = """
leasehold.release_at_exit(0.2)
client = leasehold.Client("http://127.0.0.1:1", request_timeout=30)
future = client.lock(name).acquire_future()
"""
    started = time.monotonic()
    assert run(HEAD + unreachable, server.url, name).returncode == 0
    assert time.monotonic() - started < 25, "less than the 30 s of the request"


WAITING = {
    "with": "with client.lock(name): pass",
    "acquire": "client.lock(name).acquire()",
    "future": "client.lock(name).acquire_future().result()",
}


def interrupted(code: str, server: Server, name: str, when: Callable[[], bool]) -> tuple[int, float, str]:
    """Runs it, sends Ctrl-C, and says how it ended and after how many seconds."""
    command = [sys.executable, "-B", "-c", HEAD + code, server.url, name]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(when, "it waits")
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        return process.returncode, time.monotonic() - sent, error


@pytest.mark.parametrize("kind", WAITING)
def test_ctrl_c_leaves_nothing(kind: str, server: Server, name: str) -> None:
    code = f"""
client = leasehold.Client(url)
blocker = leasehold.Client(url).lock(name).acquire()
{WAITING[kind]}
"""
    returned, _, error = interrupted(code, server, name, lambda: len(server.keys(name)) == 2)
    assert returned == -signal.SIGINT, error
    assert "KeyboardInterrupt" in error
    assert server.keys(name) == []


def test_ctrl_c_at_any_moment_leaves_nothing(server: Server, name: str) -> None:
    """At 0 to 3 ms after the start of an acquire, in one process that goes on."""
    code = """
import time
client = leasehold.Client(url)
client.ping()
def ring(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
waited = []
for number in range(int(os.environ["ROUNDS"])):
    lock, has_begun = client.lock(f"{name}/{number}"), False
    try:
        signal.setitimer(signal.ITIMER_REAL, (number % 31 + 1) / 10_000)
        with lock:
            has_begun = True
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    if not has_begun:
        waited.append(lock)
deadline = time.monotonic() + 60
while any(lock.locked() for lock in waited):
    assert time.monotonic() < deadline
# Ctrl-C at the first instruction of leaving a block stops Python from leaving it: that is left to the end.
client.close()
print("clean", len(waited) > 0)
"""
    done = run(HEAD + code, server.url, name, ROUNDS=str(size(155, 310)))
    assert done.stdout == "clean True\n", done
    assert server.keys(name) == []
    # A signal whose handler raises in a finaliser is lost, and Python says so here.
    assert done.stderr == "", done

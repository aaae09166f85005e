"""Greenlets: programs that gevent or eventlet has patched wait through their hub, and everything else goes on meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from conftest import Server, run, size, until

HEADS = {
    "gevent": """
from gevent import monkey
monkey.patch_all()
import gevent
spawn, Timeout = gevent.spawn, gevent.Timeout
join, kill = gevent.Greenlet.get, gevent.Greenlet.kill
""",
    "eventlet": """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
spawn, Timeout = eventlet.spawn, eventlet.Timeout
join, kill = type(eventlet.spawn(int)).wait, eventlet.kill
""",
}
REST = """
import sys, threading, time
import leasehold
url, name = sys.argv[1:]
client = leasehold.Client(url)
"""


@pytest.fixture(params=HEADS)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def passes(library: str, code: str, server: Server, name: str) -> None:
    done = run(HEADS[library] + REST + code + "\nprint('well')", server.url, name, seconds=30)
    assert done.stdout.endswith("well\n"), done
    assert (done.returncode, done.stderr) == (0, ""), done


def test_the_others_run_while_one_waits(library: str, server: Server, name: str) -> None:
    code = """
ticks, order = 0, []
def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.001)
spawn(tick)
guard = client.lock(name).acquire()
def wait():
    with client.lock(name) as mine:
        order.append("waiter")
        mine.put("/green" + name, "1")
waiter = spawn(wait)
while len(client.lock(name).queue()) < 2:
    time.sleep(0.001)
before = ticks
while ticks < before + 10:
    time.sleep(0.001)
order.append("holder")
guard.release()
join(waiter)
assert order == ["holder", "waiter"], order
client.close()
"""
    passes(library, code, server, name)


def test_greenlets_count_right(library: str, server: Server, name: str) -> None:
    code = f"""
counted = 0
def count():
    global counted
    with client.lock(name):
        seen = counted
        time.sleep(0)
        counted = seen + 1
for greenlet in [spawn(count) for _ in range({size(50, 200)})]:
    join(greenlet)
assert counted == {size(50, 200)}
"""
    passes(library, code, server, name)


def test_a_greenlet_that_is_ended_leaves_nothing(library: str, server: Server, name: str) -> None:
    code = """
lock = client.lock(name)
guard = lock.acquire()
try:
    with Timeout(0.05):
        lock.acquire()
    raise AssertionError("acquired")
except Timeout:
    pass
waiter = spawn(lock.acquire)
while len(lock.queue()) < 2:
    time.sleep(0.001)
kill(waiter)
while len(lock.queue()) > 1:
    time.sleep(0.001)
try:
    with client.lock(name):
        raise AssertionError("inside itself")
except leasehold.LockTimeout:
    pass
""".replace("client.lock(name):", "client.lock(name, timeout=0.05):")
    passes(library, code, server, name)


def test_losses_futures_and_logs_come(library: str, server: Server, name: str) -> None:
    code = """
import logging
logging.basicConfig(level=logging.DEBUG, filename="/dev/null")
records = []
class Keep(logging.Handler):
    def emit(self, record): records.append(record)
logging.getLogger("leasehold").addHandler(Keep())
lock = client.lock(name)
guard = lock.acquire_future().result(60)
reasons = []
def told(reason):
    # It may wait: it is no hub.
    client.lock(name + "/other").acquire().release()
    reasons.append(reason)
guard.on_lost(told)
lost = guard.lost
lock.force_release(guard.token)
assert lost.wait(60)
other = leasehold.Client(url)
other.lock(name + "/log").acquire()
other.close()
while not reasons or not records:
    time.sleep(0.001)
assert reasons == [leasehold.LostReason.KEY_DELETED]
waiting = lock.acquire()
future = lock.acquire_future()
assert future.cancel()
waiting.release()
"""
    passes(library, code, server, name)


def test_a_greenlet_inside_the_same_name_would_deadlock(library: str, server: Server, name: str) -> None:
    code = """
with client.lock(name):
    try:
        with client.lock(name):
            raise AssertionError("twice")
    except leasehold.WouldDeadlock:
        pass
"""
    passes(library, code, server, name)


def test_patched_after_the_first_use(library: str, server: Server, name: str) -> None:
    """As in a worker whose master has used the lock already (gunicorn with preload)."""
    head = f"""
import sys, leasehold
url, name = sys.argv[1:]
client = leasehold.Client(url)
client.lock(name).acquire_future().result(60).release()
{HEADS[library]}
import threading, time
guard = client.lock(name).acquire()
waiter = spawn(client.lock(name).acquire)
while len(client.lock(name).queue()) < 2:
    time.sleep(0.001)
lost = guard.lost
client.lock(name).force_release(guard.token)
assert lost.wait(60)
join(waiter).release()
print("well")
"""
    done = run(head, server.url, name, seconds=30)
    assert done.stdout.endswith("well\n"), done


def test_a_forked_worker_that_is_patched(library: str, server: Server, name: str) -> None:
    code = """
import os
with client.lock(name):
    pass
guard = client.lock(name + "/parents").acquire()
lost = guard.lost
pid = os.fork()
if pid == 0:
    with client.lock(name, timeout=60) as guard:
        client.lock(name).force_release(guard.token)
        assert guard.lost.wait(60)
        guard = client.lock(name + "/mine").acquire()
        guard.release()
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert guard.held
"""
    passes(library, code, server, name)


def test_ctrl_c_while_a_greenlet_waits(library: str, server: Server, name: str) -> None:
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
{HEADS[library]}
{REST}
blocker = client.lock(name).acquire()
client.lock(name).acquire()
"""
    command = [sys.executable, "-B", "-c", code, server.url, name]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: len(server.keys(name)) == 2, "it waits", 20)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in error
    assert time.monotonic() - sent < 10
    assert server.keys(name) == []

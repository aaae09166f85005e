"""Forks: a child starts anew, the parent's locks stay the parent's, and nothing hangs."""

from __future__ import annotations

from conftest import Server, run, size

HEAD = """
import multiprocessing, os, select, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which is what this is about
import leasehold
url, name = sys.argv[1:]
client = leasehold.Client(url)

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid

def ended_well(pid):
    end = os.pidfd_open(pid)
    assert select.select([end], [], [], 20)[0], "the child hangs"
    os.close(end)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def passes(code: str, server: Server, name: str) -> None:
    done = run(HEAD + code + "\nprint('well')", server.url, name, seconds=120)
    assert done.stdout.endswith("well\n"), done
    assert done.returncode == 0, done


def test_a_guard_is_the_parents(server: Server, name: str) -> None:
    code = """
guard = client.lock(name).acquire()
lost = []
def child():
    assert not guard.held and guard.remaining == 0
    for use in (guard.release, lambda: guard.put("/x", "1"), lambda: guard.extend(5)):
        try:
            use()
        except leasehold.ForkedError as error:
            assert "parent" in str(error)
        else:
            raise AssertionError("used")
    assert client.lock(name).try_acquire() is None
    with client.lock(name + "/other") as own:
        assert own.held
    client.close()
for _ in range(5):
    ended_well(in_child(child))
assert guard.held and client.lock(name).queue()[0].token == guard.token
guard.release()
"""
    passes(code, server, name)


def test_sys_exit_inside_with_in_the_child(server: Server, name: str) -> None:
    code = """
with client.lock(name) as guard:
    pid = os.fork()
    if pid == 0:
        sys.exit(0)  # leaves the block, and runs the exit handlers
    ended_well(pid)
    assert guard.held and client.lock(name).queue()[0].token == guard.token
"""
    passes(code, server, name)


def test_a_child_forgets_what_its_parent_was_inside_of(server: Server, name: str) -> None:
    code = """
with client.lock(name):
    def child():
        try:
            with client.lock(name, timeout=0.05):
                raise AssertionError("held twice")
        except leasehold.LockTimeout:
            pass
    ended_well(in_child(child))
"""
    passes(code, server, name)


def test_a_pool_of_forks(server: Server, name: str) -> None:
    code = """
client.ping()
counter = multiprocessing.get_context("fork").Value("i", 0, lock=False)
def work(_):
    with client.lock(name, timeout=60):
        seen = counter.value
        os.sched_yield()
        counter.value = seen + 1
with multiprocessing.get_context("fork").Pool(4) as pool:
    pool.map(work, range(40))
assert counter.value == 40, counter.value
"""
    passes(code, server, name)


def test_forks_while_threads_acquire(server: Server, name: str) -> None:
    rounds = size(20, 200)
    code = f"""
stop = threading.Event()
def cycle(number):
    while not stop.is_set():
        with client.lock(f"{{name}}/{{number % 2}}"):
            pass
threads = [threading.Thread(target=cycle, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
def child():
    with client.lock(name + "/child", timeout=60) as guard:
        assert guard.held
    client.close()
for _ in range({rounds}):
    ended_well(in_child(child))
stop.set()
for thread in threads: thread.join()
"""
    passes(code, server, name)


def test_callbacks_and_logs_work_in_a_child(server: Server, name: str) -> None:
    code = """
import asyncio
from leasehold import aio
client.lock(name).acquire_future().result(60).release()
async def cycle():
    async with aio.Client.of(client).lock(name):
        pass
asyncio.run(cycle())
def child():
    client.lock(name).acquire_future().result(60).release()
    asyncio.run(cycle())
for _ in range(5):
    ended_well(in_child(child))
"""
    passes(code, server, name)

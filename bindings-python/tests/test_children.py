"""Child processes of multiprocessing and its like: those that end in good order release what they hold."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from conftest import Server, run, until

MODULE = """
import os, sys, threading, time
import multiprocessing
import leasehold
url, name, method, when = sys.argv[1:]

client = None
held = []

def child(url, name):
    import leasehold
    client = leasehold.Client(url, ttl=60)
    held.append((client, client.lock(name).acquire()))

def inherited(url, name):
    held.append(client.lock(name).acquire())

if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    target = child
    if when == "used":  # by the parent, before
        client = leasehold.Client(url, ttl=60)
        client.lock(name + "/parents").acquire().release()
        client.close() if method != "fork" else None
        target = inherited if method == "fork" else child
    process = context.Process(target=target, args=(url, name))
    process.start()
    process.join(60)
    assert process.exitcode == 0, process.exitcode
    if when == "pool":
        with context.Pool(2) as pool:
            pool.starmap(child, [(url, name + "/pool/1"), (url, name + "/pool/2")])
            pool.close()
            pool.join()
    print("well")
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("when", ["fresh", "used", "pool"])
def test_a_child_that_ends_releases(method: str, when: str, server: Server, name: str, tmp_path: object) -> None:
    program = f"{tmp_path}/program.py"
    with open(program, "w") as file:
        file.write(MODULE)
    code = f"import runpy, sys; sys.argv[0] = {program!r}; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += f"import subprocess; sys.exit(subprocess.call([sys.executable, '-B', {program!r}, *sys.argv[1:]]))"
    done = run(code, server.url, name, method, when)
    assert done.stdout == "well\n", done
    assert server.keys(name + "/") == [], "left to its TTL"


def test_concurrent_futures_in_processes(server: Server, name: str) -> None:
    code = """
import sys
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
import leasehold
url, name = sys.argv[1:]
client = leasehold.Client(url, ttl=60)
held = []
def work(number):
    held.append(client.lock(f"{name}/{number}").acquire())
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    list(pool.map(work, range(4)))
print("well")
"""
    done = run(code, server.url, name)
    assert done.stdout == "well\n", done
    assert server.keys(name) == [], "left to its TTL"


def test_multiprocessing_that_is_imported_later(server: Server, name: str) -> None:
    code = """
import sys
import leasehold
assert "multiprocessing.util" not in sys.modules, "it takes time to import"
url, name = sys.argv[1:]
client = leasehold.Client(url, ttl=60)
import multiprocessing
held = []
process = multiprocessing.get_context("fork").Process(target=lambda: held.append(client.lock(name).acquire()))
process.start()
process.join()
print("well")
"""
    done = run(code, server.url, name)
    assert done.stdout == "well\n", done
    assert server.keys(name) == [], "left to its TTL"


def test_sigterm_as_the_guide_says(server: Server, name: str) -> None:
    code = """
import signal, sys, time
import leasehold
url, name = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
client = leasehold.Client(url, ttl=60)
guard = client.lock(name).acquire()
client.lock(name).acquire()
"""
    command = [sys.executable, "-B", "-c", code, server.url, name]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(server.keys(name)) == 2, "it waits")
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - sent < 50, "not at its TTL"
    assert server.keys(name) == []


def test_a_sub_interpreter_says_what_to_set() -> None:
    code = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import leasehold
program = '''
import sys
sys.path[:] = %r
try:
    import leasehold
except ImportError as error:
    text = str(error)
    assert "WSGIApplicationGroup" in text and "single-interpreter" in text, text
else:
    raise AssertionError("imported")
''' % sys.path
one = interpreters.create()
failed = interpreters.run_string(one, program)
assert failed is None, failed
print("well")
"""
    done = run(code)
    assert done.stdout == "well\n", done

"""The recipes of bindings-python/examples, each run as its users would run it, against a real etcd."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import DIRECT, Server, until

import leasehold
from leasehold.testing import _reserve

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PATH = os.pathsep.join([str(Path(leasehold.__file__).parents[1]), str(EXAMPLES)])


@contextmanager
def running(
    module: str, *arguments: str, cwd: Path = EXAMPLES, said: list[str] | None = None, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A program that goes on until it is told to end. What it has said is added to `said`."""
    command = [sys.executable, "-B", "-m", module, *arguments]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": PATH, "PYTHONWARNINGS": "ignore", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        # Some end themselves by the signal, after they have cleaned up.
        assert process.returncode in (0, -signal.SIGTERM), output
        if said is not None:
            said.append(output)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            print(process.communicate()[0], file=sys.stderr)


def ask(url: str, method: str = "GET") -> tuple[int, Any]:
    try:
        with DIRECT.open(urllib.request.Request(url, method=method), timeout=120) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, None


def is_up(url: str) -> bool:
    try:
        ask(url)
    except urllib.error.URLError:
        return False
    return True


def load(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("workers", ["sync", "gthread", "gevent"])
def test_gunicorn_with_preload(workers: str, server: Server, client: leasehold.Client) -> None:
    port = _reserve()
    address = f"127.0.0.1:{port.getsockname()[1]}"
    how = ("--preload", "--workers", "2", "--worker-class", workers)
    arguments = (*how, "--bind", address, "gunicorn_app:application")
    busy: list[threading.Thread] = []
    with port, running("gunicorn", *arguments, ETCD_URL=server.url, PATIENCE="60" if workers == "gevent" else "0.2"):
        until(lambda: is_up(f"http://{address}/up"), "it serves")
        answers = [ask(f"http://{address}/work") for _ in range(20)]
        assert {status for status, _ in answers} == {200}
        tokens = [body["token"] for _, body in answers]
        assert tokens == sorted(set(tokens))
        with client.lock("/lock/busy"):
            assert ask(f"http://{address}/busy")[0] == 423
            if workers == "gevent":
                # One that waits holds up nobody.
                busy = [threading.Thread(target=ask, args=(f"http://{address}/busy",)) for _ in range(8)]
                for one in busy:
                    one.start()
                until(lambda: len(client.lock("/lock/busy").queue()) == 9, "all of them wait")
                assert ask(f"http://{address}/work")[0] == 200
                assert all(one.is_alive() for one in busy), "answered while they wait"
        for one in busy:
            one.join()
    assert server.keys("/lock/work") == []


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet"])
def test_celery(pool: str, server: Server, tmp_path: Path) -> None:
    before = len(server.keys("/settled/"))
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    program = f"""
import os
os.environ.update(BROKER_URL="filesystem://", RESULT_URL="file://{tmp_path}/out", ETCD_URL={server.url!r})
import celery_task
celery_task.app.conf.broker_transport_options = {{
    "data_folder_in": "{tmp_path}/in", "data_folder_out": "{tmp_path}/in", "processed_folder": "{tmp_path}/in",
}}
app = celery_task.app
"""
    (tmp_path / "configured.py").write_text(program)
    asking = """
from configured import app
from celery import group
import celery_task
results = [(order % 3, celery_task.settle.delay(order % 3)) for order in range(12)]
print([[name, result.get(timeout=60)] for name, result in results])
"""
    environment = {"PYTHONPATH": PATH + os.pathsep + str(tmp_path)}
    arguments = ("--app", "configured", "worker", "--pool", pool, "--concurrency", "2", "--without-mingle")
    with running("celery", *arguments, cwd=tmp_path, **environment):
        command = [sys.executable, "-B", "-c", asking]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # Locks of other names that are acquired at the same moment may have the same one.
        assert len({tuple(hold) for hold in json.loads(done.stdout)}) == 12, "twelve holds, a token for each of a name"
    assert server.keys("/lock/order") == []
    assert len(server.keys("/settled/")) == before + 12


def manage(server: Server, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", "manage.py", *arguments],
        cwd=EXAMPLES / "django_project",
        env={**os.environ, "PYTHONPATH": PATH, "ETCD_URL": server.url, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_django_command(server: Server, client: leasehold.Client) -> None:
    assert "running with the token" in manage(server, "nightly").communicate()[0]
    with client.lock("/lock/nightly"):
        assert "another host" in manage(server, "nightly").communicate()[0]
    assert server.keys("/lock/nightly") == []


def test_django_transactions(server: Server, tmp_path: Path) -> None:
    database = tmp_path / "database"
    assert manage(server, "migrate", "--run-syncdb", DATABASE=str(database)).wait() == 0
    hosts = [manage(server, "invoice", "10", DATABASE=str(database)) for _ in range(3)]
    assert [host.wait() for host in hosts] == [0, 0, 0]
    with sqlite3.connect(database) as connection:
        written = connection.execute("SELECT number, token FROM jobs_invoice ORDER BY number").fetchall()
    assert [number for number, _ in written] == list(range(1, 31)), "without a gap"
    tokens = [token for _, token in written]
    assert tokens == sorted(tokens), "in the order of the lock"
    assert server.keys("/lock/invoices") == []


def test_apscheduler(server: Server) -> None:
    said: list[str] = []
    minute = int(time.time() // 60)
    with (
        running("apscheduler_job", said=said, ETCD_URL=server.url) as one,
        running("apscheduler_job", said=said, ETCD_URL=server.url) as other,
    ):
        until(lambda: server.keys("/report:last"), "one of them has reported")
        before = server.revision()
        until(lambda: server.revision() >= before + 8, "they come again, each second")
        assert other.poll() is None
        assert one.poll() is None
    minutes = int(time.time() // 60) - minute + 1
    assert 1 <= "".join(said).count("the report of") <= minutes


def test_fastapi(server: Server, client: leasehold.Client) -> None:
    reserved = _reserve()
    port = str(reserved.getsockname()[1])
    arguments = ("--port", port, "--log-level", "warning", "fastapi_endpoint:app")
    with reserved, running("uvicorn", *arguments, ETCD_URL=server.url) as process:
        until(lambda: is_up(f"http://127.0.0.1:{port}/docs-not-there"), "it serves")
        status, body = ask(f"http://127.0.0.1:{port}/documents/7", "POST")
        assert status == 200
        assert body["revision"] > body["token"]
        with client.lock("/lock/document/8"):
            assert ask(f"http://127.0.0.1:{port}/documents/8", "POST")[0] == 423
        assert process.poll() is None
    assert server.keys("/lock/document") == []


def test_token_refresh(server: Server) -> None:
    recipe = load("token_refresh")
    refreshed: list[float] = []

    def refresh() -> tuple[str, float]:
        refreshed.append(time.monotonic())
        return f"token {len(refreshed)}", 60

    clients = [leasehold.Client(server.url) for _ in range(4)]
    got: list[str] = []
    workers = [
        threading.Thread(target=lambda client=client: got.append(recipe.AccessToken(client, refresh).get()))
        for client in clients * 5
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert got == ["token 1"] * 20
    assert len(refreshed) == 1

    # A worker that loses the lock in the middle stores nothing.
    server.call("kv/deleterange", key="L3Rva2Vu")

    def frozen() -> tuple[str, float]:
        (holder,) = clients[0].lock("/lock/token").queue()
        clients[0].lock("/lock/token").force_release(holder.token)
        return "stale", 60

    with pytest.raises(leasehold.LockLost):
        recipe.AccessToken(clients[0], frozen).get()
    assert "/token" not in server.keys("/token")
    for client in clients:
        client.close()

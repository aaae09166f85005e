"""What the tests of the package share: a real etcd, looks into it, and the closing line that scripts/counts.py reads."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
# All that the tests ask is on loopback, where no proxy of the environment can help.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Cargo's.
TARGET = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip())
# Sizes that take seconds to a minute by default; all that was promised with LEASEHOLD_FULL=1.
FULL = os.environ.get("LEASEHOLD_FULL") == "1"


def size(usual: int, full: int) -> int:
    return full if FULL else usual


class Server:
    """An etcd of the harness, and a view of it that is not ours."""

    def __init__(self) -> None:
        program = TARGET / "debug" / "leasehold-etcd"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.url: str = told["endpoints"][0]
        self.program: str = told["etcd"]

    def stop(self) -> None:
        self.process.communicate()

    def call(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(body).encode(), method="POST")
        with DIRECT.open(request, timeout=60) as reply:
            return json.loads(reply.read())

    def keys(self, prefix: str) -> list[str]:
        start = prefix.encode()
        end = start[:-1] + bytes([start[-1] + 1])
        reply = self.call("kv/range", key=text(start), range_end=text(end), keys_only=True)
        return [base64.b64decode(kv["key"]).decode() for kv in reply.get("kvs", [])]

    def revision(self) -> int:
        """Goes up with every write of anybody."""
        return int(self.call("kv/range", key=text(b"x"))["header"]["revision"])

    def leases(self) -> int:
        return len(self.call("lease/leases").get("leases", []))


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Waits for a condition, never for time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
        time.sleep(0.005)


def run(code: str, *arguments: str, seconds: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of its own, with this package."""
    return subprocess.run(
        [sys.executable, "-B", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(leasehold.__file__).parents[1]), **environment},
    )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session", autouse=True)
def etcd_to_start(server: Server) -> Iterator[None]:
    """What `leasehold.testing` starts where a test names no etcd: not every machine has one on its PATH."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEASEHOLD_ETCD", server.program)
        yield


@pytest.fixture
def client(server: Server) -> Iterator[leasehold.Client]:
    with leasehold.Client(server.url, ttl=5) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lock of the test's own."""
    return f"/{request.node.nodeid}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "skipped", "error")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED {report.nodeid}: {report.longrepr[2]}")
    failed = counts["failed"] + counts["error"]
    terminalreporter.write_line(f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped")

"""The conformance driver, both of its forms, with the kinds of locks and elections: what it answers is what the API says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVERS = ROOT / "tests" / "conformance" / "drivers" / "python"


class Driver:
    """One driver process, and who sent what."""

    def __init__(self, program: str, server: Server) -> None:
        environment = {**os.environ, "PYTHON": sys.executable}
        command = [DRIVERS / program]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.replies: dict[int, Queue[dict[str, Any]]] = {}
        self.events: Queue[dict[str, Any]] = Queue()
        self.next = 1
        threading.Thread(target=self.read, daemon=True).start()
        assert self.ask("open", client="c", endpoints=[server.url], ttl_ms=5000)["ok"]

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            (self.events if "event" in message else self.replies[message["id"]]).put(message)

    def start(self, op: str, **fields: Any) -> int:
        number, self.next = self.next, self.next + 1
        self.replies[number] = Queue()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
        self.process.stdin.flush()
        return number

    def answer(self, number: int) -> dict[str, Any]:
        return self.replies[number].get(timeout=60)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return self.answer(self.start(op, **fields))

    def acquire(self, hold: str, **fields: Any) -> dict[str, Any]:
        return self.ask("acquire", client="c", hold=hold, **fields)


@pytest.fixture(params=["run", "run-sync"])
def driver(request: pytest.FixtureRequest, server: Server) -> Iterator[Driver]:
    driver = Driver(request.param, server)
    yield driver
    assert driver.ask("close", client="c")["ok"]
    driver.process.communicate(timeout=60)


def test_shared(driver: Driver, name: str) -> None:
    assert driver.acquire("a", lock=name, kind="shared")["ok"]
    assert driver.acquire("b", lock=name, kind="shared")["ok"]
    assert driver.acquire("c", lock=name, mode="try")["code"] == "NOT_ACQUIRED"
    waiting = driver.start("acquire", client="c", hold="c", lock=name)
    assert driver.ask("release", hold="a")["ok"]
    assert driver.ask("release", hold="b")["ok"]
    assert driver.answer(waiting)["ok"]
    assert driver.ask("release", hold="c")["ok"]
    assert driver.acquire("d", lock=name, kind="other")["code"] == "UNSUPPORTED"
    assert driver.acquire("d", lock=name, kind="")["code"] == "UNSUPPORTED"


def test_semaphore(driver: Driver, name: str) -> None:
    semaphore: dict[str, Any] = {"lock": name, "kind": "semaphore", "limit": 3}
    assert driver.acquire("a", **semaphore, permits=2)["ok"]
    assert driver.acquire("b", **semaphore)["ok"]
    assert driver.acquire("c", **semaphore, mode="try")["code"] == "NOT_ACQUIRED"
    assert driver.acquire("c", **{**semaphore, "limit": 4})["code"] == "LIMIT_MISMATCH"
    for bad in ({"permits": 0}, {"permits": 4}, {"limit": 0}, {"limit": 2**31}, {"permits": -1}, {"permits": 2**40}):
        assert driver.acquire("c", **{**semaphore, **bad})["code"] == "INVALID_ARGUMENT", bad
    assert driver.acquire("c", lock=name, kind="semaphore")["code"] == "BAD_REQUEST"
    assert driver.acquire("c", lock=name, permits=1)["code"] == "INVALID_ARGUMENT"
    assert driver.acquire("c", **{**semaphore, "permits": "1"})["code"] == "BAD_REQUEST"
    for hold in "ab":
        assert driver.ask("release", hold=hold)["ok"]


def test_several(driver: Driver, server: Server, name: str) -> None:
    locks = [{"lock": f"{name}/b"}, {"lock": f"{name}/a", "kind": "shared"}]
    got = driver.acquire("a", locks=locks)
    assert [key.rpartition("/")[0] for key in got["keys"]] == [f"{name}/b", f"{name}/a"]
    assert got["key"] == got["keys"][0]
    assert driver.acquire("b", lock=f"{name}/a", mode="try")["code"] == "NOT_ACQUIRED"
    assert driver.acquire("b", lock=f"{name}/a", kind="shared")["ok"]
    assert driver.acquire("c", locks=[])["code"] == "INVALID_ARGUMENT"
    assert driver.acquire("c", locks=[locks[0], locks[0]])["code"] == "INVALID_ARGUMENT"
    many = [{"lock": f"{name}/{number}"} for number in range(33)]
    assert driver.acquire("c", locks=many)["code"] == "INVALID_ARGUMENT"
    assert driver.acquire("c", locks="x")["code"] == "BAD_REQUEST"
    assert driver.acquire("c", locks=[{"kind": "shared"}])["code"] == "BAD_REQUEST"
    for hold in "ab":
        assert driver.ask("release", hold=hold)["ok"]
    assert server.keys(f"{name}/") == []


def test_local_first_and_linger(driver: Driver, name: str) -> None:
    how: dict[str, Any] = {"lock": name, "local_first": {"turns": 3, "ms": 1000}, "linger_ms": 500}
    first = driver.acquire("a", **how)
    waiting = driver.start("acquire", client="c", hold="b", **how)
    assert driver.ask("release", hold="a")["ok"]
    second = driver.answer(waiting)
    assert (second["token"], second["sequence"]) == (first["token"], first["sequence"] + 1)
    assert driver.ask("release", hold="b")["ok"]
    for bad in ({"local_first": {"turns": 0}}, {"local_first": {"turns": -1}}, {"local_first": True, "kind": "shared"}):
        assert driver.acquire("c", lock=name, **bad)["code"] == "INVALID_ARGUMENT", bad
    assert driver.acquire("c", lock=name, local_first=1)["code"] == "BAD_REQUEST"
    assert driver.acquire("c", lock=f"{name}/off", local_first=False)["ok"]
    assert driver.ask("release", hold="c")["ok"]


def test_elections(driver: Driver, name: str) -> None:
    nobody = driver.ask("leader", client="c", election=name)
    assert nobody["ok"]
    assert (nobody["value"], nobody["token"]) == (None, None)
    assert driver.ask("observe", client="c", election=name, watch="w")["ok"]
    seen = [driver.events.get(timeout=60)]
    led = driver.ask("campaign", client="c", election=name, hold="h", value="v")
    assert led["ok"]
    seen.append(driver.events.get(timeout=60))
    assert driver.ask("proclaim", hold="h", value="w")["ok"]
    seen.append(driver.events.get(timeout=60))
    assert driver.ask("leader", client="c", election=name)["value"] == "w"
    late = driver.ask("campaign", client="c", election=name, hold="i", value="x", wait_ms=50)
    assert late["code"] == "NOT_ACQUIRED"
    waiting = driver.start("campaign", client="c", election=name, hold="i", value="x")
    assert driver.ask("cancel", target=waiting)["ok"]
    assert driver.answer(waiting)["code"] == "CANCELLED"
    assert driver.ask("release", hold="h")["ok"]
    last = driver.events.get(timeout=60)
    if last["value"] == "x":  # A task that is cancelled does not wait until its candidate is withdrawn.
        last = driver.events.get(timeout=60)
    seen.append(last)
    assert [(one["event"], one["watch"]) for one in seen] == [("leader", "w")] * 4
    assert [one["value"] for one in seen] == [None, "v", "w", None]
    assert [one["token"] for one in seen] == [None, led["token"], led["token"], None]
    assert driver.ask("proclaim", hold="h", value="y")["code"] in ("NOT_HELD", "LOST")
    assert driver.ask("unobserve", watch="w")["ok"]
    assert driver.ask("leader", client="c", election=name)["ok"]
    assert all(replies.empty() for replies in driver.replies.values()), "one answer to each"
    assert driver.ask("unobserve", watch="w")["code"] == "BAD_REQUEST"
    again = driver.ask("campaign", client="c", election=name, hold="h", value="z", wait_ms=0)
    assert again["ok"]
    assert driver.ask("release", hold="h")["ok"]
    assert driver.events.empty()
    assert driver.acquire("l", lock=name)["ok"]
    assert driver.ask("proclaim", hold="l", value="y")["code"] == "INVALID_ARGUMENT"
    assert driver.ask("release", hold="l")["ok"]


def test_metrics(driver: Driver, name: str) -> None:
    assert driver.acquire("a", lock=name)["ok"]
    text = driver.ask("metrics", client="c")["text"]
    assert "leasehold_held 1\n" in text
    assert text.endswith("# EOF\n")
    assert driver.ask("release", hold="a")["ok"]

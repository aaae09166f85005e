"""Uncontended acquire and release, side by side: leasehold, python-etcd3 on the same etcd, redis-py's lock on one local Redis.

Interleaved rounds; what counts is the ratio to leasehold, round by round. Argument: the number of rounds.

They do not promise the same: python-etcd3 makes a lease for each lock, never renews it, and has no queue; redis-py's lock is not
renewed, has no queue, and is lost with that Redis, which keeps it in memory only.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import etcd3  # type: ignore[import-untyped]  # has no types
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
CYCLES = 50
TTL = 30


def contestants(endpoint: str, redis_port: int) -> dict[str, Callable[[], object]]:
    """What each does in one cycle."""
    client = leasehold.Client(endpoint, ttl=TTL)
    host, _, port = endpoint.removeprefix("http://").partition(":")
    other: Any = etcd3.client(host=host, port=int(port))
    cache = redis.Redis(port=redis_port)

    def theirs() -> None:
        lock = other.lock("/compare/etcd3", ttl=TTL)
        lock.acquire()
        lock.release()

    def in_redis() -> None:
        lock = cache.lock("/compare/redis", timeout=TTL)
        lock.acquire()
        lock.release()

    lock = client.lock("/compare/leasehold")
    return {"leasehold": lambda: lock.acquire().release(), "python-etcd3": theirs, "redis-py": in_redis}


def microseconds(cycle: Callable[[], object]) -> float:
    """The time of one cycle."""
    started = time.perf_counter_ns()
    for _ in range(CYCLES):
        cycle()
    return (time.perf_counter_ns() - started) / CYCLES / 1e3


def compare(storage: str, redis_port: int) -> None:
    """Prints one line for each."""
    command = [os.environ["LEASEHOLD_HARNESS"], "--version", "3.7", "--storage", storage]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ours
        if server.stdout is None:
            sys.exit("the harness has no output")
        cluster = json.loads(server.stdout.readline())
        all_of_them = contestants(cluster["endpoints"][0], redis_port)
        times: dict[str, list[float]] = {name: [] for name in all_of_them}
        for number in range(ROUNDS + 1):
            names = list(all_of_them)
            # Everybody comes after everybody else in turn; the first round warms up.
            for name in names[number % len(names) :] + names[: number % len(names)]:
                taken = microseconds(all_of_them[name])
                if number > 0:
                    times[name].append(taken)
        print(f"\n== etcd {cluster['version']}, data on {storage}; {ROUNDS} interleaved rounds of {CYCLES}")
        for name, taken_by_it in times.items():
            ratio = statistics.median(a / b for a, b in zip(taken_by_it, times["leasehold"], strict=True))
            print(f"compare     {name:<12} {statistics.median(taken_by_it):6.0f} µs   {ratio:.2f} x", flush=True)
        if server.stdin is not None:
            server.stdin.close()


def main() -> None:
    """Both kinds of storage, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    cache = subprocess.Popen([os.environ["LEASEHOLD_REDIS"], *options], stdout=subprocess.DEVNULL)  # noqa: S603 - ours
    try:
        # For at most 10 s, until it is up.
        redis.Redis(port=port, retry=Retry(ConstantBackoff(1), 10)).ping()
        for storage in ("disk", "memory"):
            compare(storage, port)
    finally:
        cache.kill()
        cache.wait()


main()

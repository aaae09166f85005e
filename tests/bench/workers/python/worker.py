"""The bench worker of the Python API: for every line `N` it acquires and releases a lock N times and prints the nanoseconds."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

import leasehold
from leasehold import aio

NAME = f"/bench/python/{os.getpid()}"


def say(what: object) -> None:
    """One line, now."""
    print(what, flush=True)


def blocking(endpoint: str) -> None:
    """`with`, in this thread."""
    with leasehold.Client(endpoint, ttl=30) as client:
        lock = client.lock(NAME)
        client.ping()
        say("ready")
        for line in sys.stdin:
            started = time.perf_counter_ns()
            for _ in range(int(line)):
                lock.acquire().release()
            say(time.perf_counter_ns() - started)


async def asynchronous(endpoint: str) -> None:
    """`async with`, in one task."""
    async with aio.Client(endpoint, ttl=30) as client:
        lock = client.lock(NAME)
        await client.ping()
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            started = time.perf_counter_ns()
            for _ in range(int(line)):
                guard = await lock.acquire()
                await guard.release()
            say(time.perf_counter_ns() - started)


def main() -> None:
    """Plays until the end of the input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--mode", choices=["sync", "async"], required=True)
    options = parser.parse_args()
    if options.mode == "sync":
        blocking(options.endpoint)
    else:
        asyncio.run(asynchronous(options.endpoint))


main()

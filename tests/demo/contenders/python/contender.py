"""A contender of the demo, in Python; tests/demo/src/protocol.rs tells what it is told and what it reports.

It has no clock and makes no decisions: the demo says when.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import leasehold


def report(event: str, **fields: Any) -> None:
    """One line for the demo."""
    print(json.dumps({"event": event, **fields}), flush=True)


def main() -> None:
    """Carries out one command after the other, until the end of the input."""
    told = {name: os.environ[f"LEASEHOLD_DEMO_{name}"] for name in ("ENDPOINTS", "LOCK", "IDENTITY", "COUNTER", "TTL")}
    counter = told["COUNTER"]
    guard: leasehold.Guard | None = None
    number = 0
    with leasehold.Client(told["ENDPOINTS"], ttl=int(told["TTL"]), identity=told["IDENTITY"]) as client:
        for line in sys.stdin:
            command = line.strip()
            if command == "acquire":
                report("waiting")
                guard = client.lock(told["LOCK"]).acquire()
                report("acquired", token=guard.token, key=guard.key)
                continue
            if guard is None:
                sys.exit(f"{command!r} without the lock")
            if command == "read":
                (value,) = guard.txn().get(counter).commit().values
                number = int(value or 0)
                report("read", value=number)
            elif command == "write":
                held = guard.held
                try:
                    guard.put(counter, str(number + 1))
                    report("counted", value=number + 1)
                except leasehold.LockLost as lost:
                    report("refused", held=held, error=lost.code.name, reason=lost.reason and lost.reason.name)
                    guard = None
            elif command == "release":
                guard.release()
                guard = None
                report("released")
            else:
                sys.exit(f"unknown command {command!r}; known are acquire, read, write and release")


try:
    main()
except leasehold.LeaseholdError as error:
    report("failed", error=str(error))
    sys.exit(1)

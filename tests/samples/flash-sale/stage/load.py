#!/usr/bin/env python3
"""The customers: many HTTP requests at the same moment, each with its outcome and the time of its answer.

As a program (`load.py COUNT PORT LOCK`) it is the crowd: a process of its own, so that 500 threads do not slow down the one
that watches. It prints a line for each answer.
"""

import contextlib
import http.client
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass
class Answer:
    """What one customer got, and when, on the clock of time.monotonic(), which all processes share."""

    outcome: str
    finished: float


def buy(port: int, lock: str, think: int = 0) -> Answer:
    """One request; `think` in milliseconds. An outcome of the service, or FAILED and why."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=150)
    try:
        connection.request("POST", f"/buy/{lock}?think={think}")
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        outcome = body if response.status == 200 else f"FAILED {response.status}"
    except (OSError, http.client.HTTPException) as error:
        outcome = f"FAILED {type(error).__name__}"
    finally:
        with contextlib.suppress(OSError):
            connection.close()
    return Answer(outcome, time.monotonic())


class Crowd:
    """So many customers that all start at once, in a process of their own."""

    def __init__(self, count: int, port: int, lock: str):
        self.count, self.answers = count, []
        command = [sys.executable, "-B", __file__, str(count), str(port), lock]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.started = float(self._process.stdout.readline())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            finished, outcome = line.rstrip("\n").split(" ", 1)
            self.answers.append(Answer(outcome, float(finished)))

    def counts(self) -> Counter:
        return Counter(answer.outcome.split()[0] for answer in list(self.answers))

    def is_done(self) -> bool:
        return not self._reader.is_alive()

    def pending(self) -> int:
        return self.count - len(self.answers)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Single(threading.Thread):
    """One customer beside the crowd, who thinks for a while between looking and paying."""

    def __init__(self, port: int, lock: str, think: int):
        super().__init__(daemon=True)
        self._arguments, self.answer = (port, lock, think), None
        self.start()

    def run(self) -> None:
        self.answer = buy(*self._arguments)


def main() -> None:
    count, port, lock = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    begin, mutex = threading.Barrier(count + 1), threading.Lock()

    def one() -> None:
        begin.wait()
        answer = buy(port, lock)
        with mutex:
            print(answer.finished, answer.outcome, flush=True)

    threads = [threading.Thread(target=one, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    print(time.monotonic(), flush=True)
    begin.wait()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

"""A scheduled job that one of many schedulers runs: the first to come does it, the others skip the turn.

python apscheduler_job.py
"""

from __future__ import annotations

import datetime
import os
import signal
import threading

from apscheduler.schedulers.background import BackgroundScheduler

import leasehold

client = leasehold.Client(os.environ["ETCD_URL"], ttl=15)


def report(turn: str) -> bool:
    """Runs once for each turn: the lock keeps two from running at once, the key from running one after the other."""
    guard = client.lock("/lock/report").try_acquire()
    if guard is None:
        return False
    with guard:
        (done,) = guard.txn().get("/report/last").commit().values
        if done == turn.encode():
            return False
        print("the report of", turn, flush=True)
        guard.put("/report/last", turn)
        return True


def this_turn() -> None:
    """The turn is named by the clock, the same for all hosts: here by the minute."""
    report(datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"))


if __name__ == "__main__":
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(this_turn, "interval", seconds=1, next_run_time=datetime.datetime.now(datetime.timezone.utc))
    scheduler.start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    scheduler.shutdown()
    client.close()

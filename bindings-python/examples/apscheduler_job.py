"""A scheduled job that one of many schedulers runs: the first to come does it, the others skip the turn.

python apscheduler_job.py
"""

from __future__ import annotations

import os
import signal
import threading
from datetime import datetime, timezone

from apscheduler.schedulers.background import BackgroundScheduler

import leasehold
from leasehold.apscheduler import once

client = leasehold.Client(os.environ["ETCD_URL"], ttl=15)


@once(client, "/report", every=60)
def report() -> bool:
    """Runs once a minute, on whichever host comes first."""
    print("the report of", datetime.now(timezone.utc), flush=True)
    return True


if __name__ == "__main__":
    scheduler = BackgroundScheduler(timezone="UTC")
    # More often than it is to run: the decorator counts the minutes.
    scheduler.add_job(report, "interval", seconds=1, next_run_time=datetime.now(timezone.utc))
    scheduler.start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    scheduler.shutdown()
    client.close()

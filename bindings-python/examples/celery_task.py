"""A Celery task that one worker at a time runs for each order, with any pool.

    celery --app celery_task worker --pool prefork --concurrency 2

The client is made once, before the pool forks: each worker process goes on with a session of its own. Whoever finds the order
taken for longer than the timeout puts its task back, and Celery tries again later.
"""

from __future__ import annotations

import os

from celery import Celery, Task

import leasehold
from leasehold.celery import locked_task

app = Celery("shop", broker=os.environ["BROKER_URL"], backend=os.environ["RESULT_URL"])
client = leasehold.Client(os.environ["ETCD_URL"], ttl=15)


@locked_task(client, "/lock/order/{order}", timeout=5, max_retries=5, app=app, bind=True)
def settle(self: Task, order: int) -> int:
    """Settles an order."""
    guard = leasehold.current_guard()
    if guard is None:
        raise RuntimeError("runs as a task only")
    guard.put(f"/settled/{order}/{self.request.id}", str(os.getpid()))
    return guard.token

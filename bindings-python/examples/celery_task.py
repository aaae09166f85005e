"""A Celery task that one worker at a time runs for each order, with the prefork pool.

    celery --app celery_task worker --pool prefork --concurrency 2

The client is made once, before the pool forks: each worker process goes on with a session of its own.
"""

from __future__ import annotations

import os

from celery import Celery, Task

import leasehold

app = Celery("shop", broker=os.environ["BROKER_URL"], backend=os.environ["RESULT_URL"])
client = leasehold.Client(os.environ["ETCD_URL"], ttl=15)


@app.task(bind=True, autoretry_for=(leasehold.LockTimeout,), retry_backoff=1, max_retries=5)
def settle(self: Task, order: int) -> int:
    """Settles an order. Somebody else at it? Celery tries again later."""
    with client.lock(f"/lock/order/{order}", timeout=5) as guard:
        guard.put(f"/settled/{order}/{self.request.id}", str(os.getpid()))
        return guard.token

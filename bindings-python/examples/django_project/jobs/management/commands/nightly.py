"""A management command that cron starts on every host, and that runs on one: `manage.py nightly`."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

import leasehold


class Command(BaseCommand):
    """Runs while it holds the lock; ends with an error if it loses it, and quietly if another host is at it."""

    help = "Does what has to be done once a night."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Called by Django."""
        with leasehold.Client(os.environ["ETCD_URL"], ttl=15) as client:
            guard = client.lock("/lock/nightly").try_acquire()
            if guard is None:
                self.stdout.write("another host is at it")
                return
            try:
                with guard:
                    self.stdout.write(f"running with the token {guard.token}")
            except leasehold.LockLost as lost:
                raise CommandError(str(lost)) from lost

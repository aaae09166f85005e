"""A management command that writes invoices, on as many hosts at once as you like: `manage.py invoice 10`."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

import leasehold
from jobs.models import Invoice
from leasehold.django import atomic


class Command(BaseCommand):
    """Numbers them without a gap: the lock is released after the commit, so that the next one sees this one's number."""

    help = "Writes so many invoices."

    def add_arguments(self, parser: CommandParser) -> None:
        """Called by Django."""
        parser.add_argument("count", type=int)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Called by Django."""
        with leasehold.Client(os.environ["ETCD_URL"], ttl=15) as client:
            for _ in range(options["count"]):
                with atomic(client.lock("/lock/invoices", timeout=30)) as guard:
                    last = Invoice.objects.order_by("-number").first()
                    Invoice.objects.create(number=last.number + 1 if last else 1, token=guard.token)

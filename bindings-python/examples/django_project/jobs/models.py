"""What the jobs keep in the database."""

from __future__ import annotations

from django.db import models


class Invoice(models.Model):
    """Numbered without a gap, so whoever writes one has to know the last one, committed."""

    number = models.IntegerField(unique=True)
    token = models.BigIntegerField()

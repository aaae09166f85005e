"""The usual manage.py, with settings for one application."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", ":memory:")}
    settings.configure(INSTALLED_APPS=["jobs"], USE_TZ=True, DATABASES={"default": database})
    execute_from_command_line(sys.argv)

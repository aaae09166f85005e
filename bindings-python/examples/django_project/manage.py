"""The usual manage.py, with settings for one application."""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    settings.configure(INSTALLED_APPS=["jobs"], USE_TZ=True)
    execute_from_command_line(sys.argv)

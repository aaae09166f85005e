"""Loads the native module, or says what to do where it cannot be loaded."""

from __future__ import annotations

try:
    import leasehold._native as _  # noqa: F401 - only to load it
except ImportError as error:
    if "interpreter" not in str(error):
        raise
    msg = (
        "leasehold runs in one interpreter of a process, and not in sub-interpreters. Under mod_wsgi set "
        "`WSGIApplicationGroup %{GLOBAL}`, under uWSGI `single-interpreter = true`; a program that makes "
        "sub-interpreters itself imports and uses leasehold in its main one"
    )
    raise ImportError(msg, name=error.name, path=error.path) from error

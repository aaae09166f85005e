"""Tasks of Celery that run while a lock is held, named after their arguments.

What is delivered twice (a worker that lost its connection, a broker's visibility timeout, somebody who clicks twice) runs one
after the other, or once.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any, Literal

from leasehold._busy import unless_busy
from leasehold._errors import InvalidArgument, LockTimeout
from leasehold._synchronized import Naming, checked, done

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold._sync import Client
    from leasehold._values import Span

__all__ = ["locked_task"]

# Celery is not typed.
_celery: Any = importlib.import_module("celery")


def locked_task(
    client: Client,
    lock: str | Callable[..., str],
    *,
    timeout: Span = 0,
    ttl: Span | None = None,
    renew: bool = True,
    busy: Literal["retry", "skip"] = "retry",
    app: Any = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Makes a task of a function whose body runs inside the lock that `lock` makes of its arguments.

    Args:
        client: One for the process; it may be made before the pool forks.
        lock: A template such as `"/lock/order/{order}"`, or a function of the same arguments. With `bind=True` these begin with
            `self`.
        timeout: How long a worker waits for it before the task is put back, in seconds: meanwhile it does nothing else.
        ttl: As of `client.lock`.
        renew: As of `client.lock`. With `False` a task whose worker hangs frees it after its TTL.
        busy: If somebody else has it, `"retry"` puts the task back as Celery's `autoretry_for` does, with `retry_backoff` and at
            most `max_retries` times, where `options` say nothing else; `"skip"` ends it with the result `None`.
        app: The application; `celery.shared_task` makes the task if it is not given.
        options: Those of the task.

    Raises:
        InvalidArgument: as `Client.synchronized`.

    A task that loses its lock fails with `LockLost`; Celery does not repeat it by itself.
    """
    if busy not in ("retry", "skip"):
        msg = f"busy must be 'retry' or 'skip', not {busy!r}"
        raise InvalidArgument(msg)
    if busy == "retry":
        options["autoretry_for"] = (*options.get("autoretry_for", ()), LockTimeout)
        options = {"retry_backoff": True, **options}

    def decorate(function: Callable[..., Any]) -> Any:
        naming = Naming(lock, checked(function))

        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            name = naming.of(args, kwargs)
            with unless_busy(client.lock(name, timeout=timeout, ttl=ttl, renew=renew)) as guard:
                if guard is not None:
                    return done(function, function(*args, **kwargs))
                if busy == "skip":
                    return None
                msg = f"somebody else has the lock {name!r}"
                raise LockTimeout(msg)

        # Celery checks arguments by it before it sends them, and looks no further than what it is given.
        locked.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        make = _celery.shared_task if app is None else app.task
        return make(**options)(locked)

    return decorate

"""The decorator that runs a function or coroutine function inside a lock named after its arguments.

A body runs inside the lock, or not at all. What is called now and runs later, a generator, say, is refused.
"""

from __future__ import annotations

import functools
import inspect
import string
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leasehold._errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

F = TypeVar("F", bound="Callable[..., Any]")

_COROUTINE = "a coroutine function"


def synchronized(
    lock: Callable[[str], AbstractContextManager[object]], name: str | Callable[..., str]
) -> Callable[[F], F]:
    """For functions: `lock` makes the lock of a name."""

    def decorate(function: F) -> F:
        naming = Naming(name, checked(function))

        @functools.wraps(function)
        def locked(*args: object, **kwargs: object) -> object:
            with lock(naming.of(args, kwargs)):
                return done(function, function(*args, **kwargs))

        return cast("F", locked)

    return decorate


def synchronized_async(
    lock: Callable[[str], AbstractAsyncContextManager[object]], name: str | Callable[..., str]
) -> Callable[[F], F]:
    """For coroutine functions: `lock` makes the lock of a name."""

    def decorate(function: F) -> F:
        kind = _kind(function)
        if kind is None:
            msg = f"{_named(function)} is no coroutine function; use leasehold.Client for it"
            raise InvalidArgument(msg)
        if kind != _COROUTINE:
            _refuse(function, kind)
        naming = Naming(name, function)

        @functools.wraps(function)
        async def locked(*args: object, **kwargs: object) -> object:
            async with lock(naming.of(args, kwargs)):
                return done(function, await function(*args, **kwargs))

        return cast("F", locked)

    return decorate


def checked(function: F) -> F:
    """The function itself.

    Raises:
        InvalidArgument: its body would not run when it is called.
    """
    kind = _kind(function)
    if kind == _COROUTINE:
        msg = f"{_named(function)} is {kind}; use the client of leasehold.aio for it, or take the lock inside it"
        raise InvalidArgument(msg)
    _refuse(function, kind)
    return function


def _kind(function: object) -> str | None:
    """What it is, if its body does not run when it is called."""
    for kind in (staticmethod, classmethod):
        if isinstance(function, kind):
            msg = f"put the decorator below @{kind.__name__}, next to the function"
            raise InvalidArgument(msg)
    while isinstance(function, functools.partial):
        function = function.func
    for called in (function, getattr(type(function), "__call__", None)):  # noqa: B004 - what it does when it is called
        if inspect.iscoroutinefunction(called):
            return _COROUTINE
        if inspect.isgeneratorfunction(called):
            return "a generator function"
        if inspect.isasyncgenfunction(called):
            return "an asynchronous generator function"
    return None


def _refuse(function: object, kind: str | None) -> None:
    if kind is not None:
        msg = f"{_named(function)} is {kind}: its body would run after the lock was released; take the lock inside it"
        raise InvalidArgument(msg)


def done(function: object, result: object) -> object:
    """What it returned, unless that is still to run. Raised inside the lock, with nothing run yet."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        what = "an awaitable" if inspect.isawaitable(result) else "a generator"
        msg = (
            f"{_named(function)} returned {what}, which would go on after the lock was released; "
            "take the lock inside it, or await it in a coroutine function"
        )
        raise InvalidArgument(msg)
    return result


def _named(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


class Naming:
    """Makes the name of a lock from the arguments of a call."""

    def __init__(self, name: str | Callable[..., str], function: Callable[..., Any]) -> None:
        """Checks a template at once, not at the first call."""
        self._make: Callable[..., object] | None = name if callable(name) else None
        self._template = "" if callable(name) else name
        self._signature = inspect.signature(function)
        fields = [field for _, field, _, _ in string.Formatter().parse(self._template) if field is not None]
        for field in fields:
            parameter = field.split(".")[0].split("[")[0]
            if parameter not in self._signature.parameters:
                msg = f"the name {name!r} asks for {parameter!r}, which is no parameter of {_named(function)}"
                raise InvalidArgument(msg)
        self._has_fields = bool(fields)

    def of(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """The name for a call with these arguments."""
        if self._make is not None:
            made = self._make(*args, **kwargs)
            if not isinstance(made, str):
                msg = f"the name of a lock must be a str, not {type(made).__name__}"
                raise InvalidArgument(msg)
            return made
        if not self._has_fields:
            return self._template.format()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._template.format(**bound.arguments)

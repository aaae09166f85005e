"""The decorator that runs a function or coroutine function inside a lock named after its arguments."""

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


def synchronized(lock: Callable[[str], AbstractContextManager[object]], name: str) -> Callable[[F], F]:
    """For functions: `lock` makes the lock of a name."""

    def decorate(function: F) -> F:
        if inspect.iscoroutinefunction(function):
            msg = f"{function.__qualname__} is a coroutine function; use the client of leasehold.aio for it"
            raise InvalidArgument(msg)
        naming = Naming(name, function)

        @functools.wraps(function)
        def locked(*args: object, **kwargs: object) -> object:
            with lock(naming.of(args, kwargs)):
                return function(*args, **kwargs)

        return cast("F", locked)

    return decorate


def synchronized_async(lock: Callable[[str], AbstractAsyncContextManager[object]], name: str) -> Callable[[F], F]:
    """For coroutine functions: `lock` makes the lock of a name."""

    def decorate(function: F) -> F:
        if not inspect.iscoroutinefunction(function):
            msg = f"{function.__qualname__} is no coroutine function; use leasehold.Client for it"
            raise InvalidArgument(msg)
        naming = Naming(name, function)

        @functools.wraps(function)
        async def locked(*args: object, **kwargs: object) -> object:
            async with lock(naming.of(args, kwargs)):
                return await function(*args, **kwargs)

        return cast("F", locked)

    return decorate


class Naming:
    """Makes the name of a lock from the arguments of a call."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """Checks the template at once, not at the first call."""
        self._template = name
        self._signature = inspect.signature(function)
        fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
        for field in fields:
            parameter = field.split(".")[0].split("[")[0]
            if parameter not in self._signature.parameters:
                msg = f"the name {name!r} asks for {parameter!r}, which is no parameter of {function.__qualname__}"
                raise InvalidArgument(msg)
        self._has_fields = bool(fields)

    def of(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """The name for a call with these arguments."""
        if not self._has_fields:
            return self._template.format()
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._template.format(**bound.arguments)

"""The conformance driver of the Python API: one JSON request a line on stdin, replies and events on stdout.

It does no locking, waiting or retrying of its own. Every request becomes a task, so that later requests are not held up; to
cancel one is to cancel its task. With `via: sync` the acquire blocks a thread of its own and brings a guard of the blocking
API. At the end of the input it ends at once and releases nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold import aio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Fields = dict[str, Any]
# The form that is meant where a request says nothing: see `run-sync`.
FORMS = ("sync", "async") if os.environ.get("LEASEHOLD_DRIVER_VIA") == "sync" else ("async", "sync")


class Refusal(Exception):
    """The request is not of the protocol's form, or asks for something that this driver does not know."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def malformed(message: str) -> Refusal:
    return Refusal("BAD_REQUEST", message)


def unsupported(message: str) -> Refusal:
    return Refusal("UNSUPPORTED", message)


class Request:
    """A request, to be read field by field. A field that is null counts as left out."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def get(self, name: str, *kinds: type) -> Any:
        value = self.fields.get(name)
        # In Python, True is a number; here it is none.
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise malformed(f"the field {name!r} must be a {kinds[0].__name__}")
        return value

    def need(self, name: str, *kinds: type) -> Any:
        value = self.get(name, *kinds)
        if value is None:
            raise malformed(f"the field {name!r} is missing")
        return value

    def seconds(self, name: str) -> float | None:
        millis: float | None = self.get(name, int, float)
        return None if millis is None else millis / 1000

    def one_of(self, name: str, *choices: str) -> str:
        value: str = self.get(name, str) or choices[0]
        if value not in choices:
            raise malformed(f"{name} is one of {', '.join(choices)}, not {value!r}")
        return value


class Driver:
    """What requests refer to by name."""

    def __init__(self) -> None:
        self.clients: dict[str, leasehold.Client] = {}
        self.holds: dict[str, leasehold.Guard | aio.Guard] = {}
        self.tasks: dict[str, asyncio.Task[Fields]] = {}
        self.blocking: dict[str, leasehold.Cancel] = {}

    def line(self, line: bytes) -> None:
        id_ = None
        try:
            try:
                fields = json.loads(line)
            except ValueError as error:
                raise malformed(f"a request is a JSON object: {error}") from None
            if not isinstance(fields, dict):
                raise malformed("a request is a JSON object")
            id_ = fields.get("id")
            if id_ is None:
                raise malformed('the field "id" is missing')
            operation = getattr(self, "op_" + Request(fields).need("op", str), None)
            if operation is None:
                raise unsupported(f"the Python driver knows no operation {fields['op']!r}")
            answer = operation(Request(fields))
        except (Refusal, leasehold.LeaseholdError) as error:
            refuse(id_, error)
            return
        if isinstance(answer, dict):
            reply(id_, answer)
            return
        task = asyncio.ensure_future(answer)
        self.tasks[json.dumps(id_)] = task
        task.add_done_callback(lambda task: finish(id_, task))

    def client(self, request: Request) -> leasehold.Client:
        name = request.need("client", str)
        if name not in self.clients:
            raise malformed(f"no client {name!r} was opened")
        return self.clients[name]

    def lock(self, request: Request) -> aio.Lock:
        return aio.Client.of(self.client(request)).lock(request.need("lock", str))

    def hold(self, request: Request) -> leasehold.Guard | aio.Guard:
        name = request.need("hold", str)
        if name not in self.holds:
            raise leasehold.NotHeld(f"there is no hold {name!r}")
        return self.holds[name]

    def op_version(self, _request: Request) -> Fields:
        return {"language": "python", "version": leasehold.__version__}

    def op_open(self, request: Request) -> Fields:
        endpoints = request.need("endpoints", list)
        if not all(isinstance(endpoint, str) for endpoint in endpoints):
            raise malformed("the endpoints must be texts")
        texts = ("namespace", "identity", "user", "password", "ca_file", "cert_file", "key_file")
        spans = ("ttl", "connect_timeout", "request_timeout")
        options: Fields = {name: request.get(name, str) for name in texts}
        options |= {name: request.seconds(name + "_ms") for name in spans}
        self.clients[request.need("client", str)] = leasehold.Client(endpoints, **options)
        return {}

    def op_ping(self, request: Request) -> Awaitable[Fields]:
        return nothing(aio.Client.of(self.client(request)).ping())

    def op_close(self, request: Request) -> Awaitable[Fields]:
        return nothing(aio.Client.of(self.client(request)).close())

    def op_acquire(self, request: Request) -> Awaitable[Fields]:
        if request.get("kind", str) not in (None, "mutex"):
            raise unsupported(f"there is no lock of the kind {request.fields['kind']!r}")
        mode = request.one_of("mode", "wait", "try")
        is_sync = request.one_of("via", *FORMS) == "sync"
        hold, name = request.need("hold", str), request.need("lock", str)
        options: Fields = {"ttl": request.seconds("ttl_ms"), "timeout": request.seconds("wait_ms")}
        for flag in ("renew", "requeue"):
            if (value := request.get(flag, bool)) is not None:
                options[flag] = value
        client = self.client(request)
        if not is_sync:
            return self.acquired(hold, attempt(aio.Client.of(client).lock(name, **options), mode))
        lock = client.lock(name, **options)
        cancel = self.blocking[json.dumps(request.fields["id"])] = leasehold.Cancel()
        return self.acquired(hold, in_thread(attempt, lock, mode, cancel=cancel))

    async def acquired(self, hold: str, attempt: Awaitable[leasehold.Guard | aio.Guard | None]) -> Fields:
        guard = await attempt
        if guard is None:
            raise leasehold.LockTimeout("somebody holds it")
        self.holds[hold] = guard
        fields = {"key": guard.key, "token": guard.token, "sequence": guard.sequence, "lease": guard.lease}
        return {**fields, "remaining_ms": int(guard.remaining * 1000)}

    def op_cancel(self, request: Request) -> Fields:
        target = json.dumps(request.need("target", int, float, str))
        if target not in self.tasks:
            raise malformed(f"no request {target} was made, or it was answered at once")
        if target in self.blocking:
            self.blocking[target].cancel()
        else:
            self.tasks[target].cancel()
        return {}

    def op_check(self, request: Request) -> Fields:
        guard = self.hold(request)
        return {"held": guard.held, "remaining_ms": int(guard.remaining * 1000)}

    def op_release(self, request: Request) -> Awaitable[Fields]:
        guard = self.hold(request)
        return nothing(guard.release() if isinstance(guard, aio.Guard) else in_thread(guard.release))

    def op_extend(self, request: Request) -> Awaitable[Fields]:
        guard, span = self.hold(request), request.need("ttl_ms", int, float) / 1000
        return nothing(guard.extend(span) if isinstance(guard, aio.Guard) else in_thread(guard.extend, span))

    def op_guarded_put(self, request: Request) -> Awaitable[Fields]:
        guard, key, value = self.hold(request), request.need("key", str), request.need("value", str)
        return nothing(guard.put(key, value) if isinstance(guard, aio.Guard) else in_thread(guard.put, key, value))

    def op_on_lost(self, request: Request) -> Fields:
        guard, hold = self.hold(request), request.need("hold", str)
        guard.on_lost(lambda reason: write({"event": "lost", "hold": hold, "reason": reason.name}))
        return {}

    async def op_queue(self, request: Request) -> Fields:
        names = ("key", "token", "lease", "identity", "foreign")
        contenders = await self.lock(request).queue()
        return {"contenders": [{name: getattr(one, name) for name in names} for one in contenders]}

    def op_force_release(self, request: Request) -> Awaitable[Fields]:
        return nothing(self.lock(request).force_release(request.need("token", int)))


async def nothing(work: Awaitable[object]) -> Fields:
    """What there is to say about it."""
    await work
    return {}


def attempt(lock: Any, mode: str, **how: Any) -> Any:
    """Starts the acquire: the guard, or something to await for it."""
    return lock.try_acquire(**how) if mode == "try" else lock.acquire(**how)


async def in_thread(function: Callable[..., Any], *args: object, **how: object) -> Any:
    """Runs it in a thread of its own: however many block, none holds up the others."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def work() -> None:
        try:
            result = function(*args, **how)
        except BaseException as error:
            loop.call_soon_threadsafe(future.set_exception, error)
        else:
            loop.call_soon_threadsafe(future.set_result, result)

    threading.Thread(target=work, daemon=True).start()
    return await future


def finish(id_: object, task: asyncio.Task[Fields]) -> None:
    if task.cancelled():
        refuse(id_, leasehold.OperationCancelled("its task was cancelled"))
    elif (error := task.exception()) is None:
        reply(id_, task.result())
    elif isinstance(error, (Refusal, leasehold.LeaseholdError)):
        refuse(id_, error)
    else:
        refuse(id_, leasehold.InternalError(f"{type(error).__name__}: {error}"))


def refuse(id_: object, error: Refusal | leasehold.LeaseholdError) -> None:
    code = error.code if isinstance(error, Refusal) else error.code.name
    write({"id": id_, "ok": False, "code": code, "message": str(error)})


def reply(id_: object, fields: Fields) -> None:
    write({"id": id_, "ok": True, **fields})


def write(message: Fields) -> None:
    # Read before anything else: it dates what the API answered, not what it takes to say so. It is CLOCK_MONOTONIC.
    message["mono_ns"] = time.monotonic_ns()
    try:
        with output:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()
    except OSError:
        os._exit(1)  # Nobody listens any more.


async def main() -> None:
    driver = Driver()
    lines = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        driver.line(line)
    # As a crash would: no handler of ours or of Python's runs.
    os._exit(0)


output = threading.Lock()
asyncio.run(main())

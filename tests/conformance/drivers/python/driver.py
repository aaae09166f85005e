"""The conformance driver of the Python API: one JSON request a line on stdin, replies and events on stdout.

It does no locking, waiting or retrying of its own. Every request becomes a task, so that later requests are not held up; to
cancel one is to cancel its task. With `via: sync` the acquire blocks a thread of its own and brings a guard of the blocking
API, and so does all that is done with that. At the end of the input it ends at once and releases nothing.
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
# What no language's 64 bits can hold stops here.
MOST = 2**63
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

    def whole(self, name: str) -> int | None:
        """A whole number: 5000.0 and 5e3 are as whole as 5000."""
        value: float | None = self.get(name, int, float)
        if value is None:
            return None
        if value != value // 1:
            raise malformed(f"the field {name!r} must be a whole number")
        if not -MOST <= value < MOST:
            msg = f"{name} cannot be {value}"
            raise leasehold.InvalidArgument(msg)
        return int(value)

    def need_whole(self, name: str) -> int:
        value = self.whole(name)
        if value is None:
            raise malformed(f"the field {name!r} is missing")
        return value

    def seconds(self, name: str) -> float | None:
        millis = self.whole(name)
        return None if millis is None else millis / 1000

    def texts(self, name: str) -> list[str]:
        items: list[str] = self.get(name, list) or []
        if not all(isinstance(item, str) for item in items):
            raise malformed(f"the field {name!r} must be a list of texts")
        return items

    def pairs(self, name: str) -> dict[str, str]:
        fields: dict[str, str] = self.get(name, dict) or {}
        if not all(isinstance(value, str) for value in fields.values()):
            raise malformed(f"the field {name!r} must be an object of texts")
        return fields

    def one_of(self, name: str, *choices: str) -> str:
        value: str | None = self.get(name, str)
        if value is None:
            return choices[0]
        if value not in choices:
            raise malformed(f"{name} is one of {', '.join(choices)}, not {value!r}")
        return value

    def objects(self, name: str) -> list[Request] | None:
        items: list[Fields] | None = self.get(name, list)
        if items is not None and not all(isinstance(item, dict) for item in items):
            raise malformed(f"the field {name!r} must be a list of objects")
        return None if items is None else [Request(item) for item in items]

    def local_first(self) -> bool | leasehold.LocalFirst:
        value: bool | Fields | None = self.get("local_first", bool, dict)
        if not isinstance(value, dict):
            return value or False
        usual, bound = leasehold.LocalFirst(), Request(value)
        turns, time = bound.whole("turns"), bound.seconds("ms")
        return leasehold.LocalFirst(usual.turns if turns is None else turns, usual.time if time is None else time)


class Driver:
    """What requests refer to by name."""

    def __init__(self) -> None:
        self.clients: dict[str, leasehold.Client] = {}
        self.holds: dict[str, leasehold.Guard | aio.Guard] = {}
        self.watches: dict[str, Callable[[], object]] = {}
        # What had a name that has been given to something else: it goes on.
        self.former: list[object] = []
        # Every request, by its id: what ends it, where it was not answered at once.
        self.requests: dict[str, Callable[[], object] | None] = {}

    def line(self, line: bytes) -> None:
        id_ = None
        try:
            fields = parse(line)
            id_ = fields.get("id")
            if id_ is None:
                raise malformed('the field "id" is missing')
            self.requests[json.dumps(id_)] = None
            operation = getattr(self, "op_" + Request(fields).need("op", str), None)
            if operation is None:
                raise unsupported(f"the Python driver knows no operation {fields['op']!r}")
            answer = operation(Request(fields))
        except (Refusal, leasehold.LeaseholdError) as error:
            refuse(id_, error)
            return
        if answer is None:
            return  # It was given.
        if isinstance(answer, dict):
            reply(id_, answer)
            return
        task = asyncio.ensure_future(answer)
        # A thread that blocks is ended in another way, or not at all.
        if self.requests[json.dumps(id_)] is None:
            self.requests[json.dumps(id_)] = task.cancel
        task.add_done_callback(lambda task: finish(id_, task))

    def client(self, request: Request) -> leasehold.Client:
        name = request.need("client", str)
        if name not in self.clients:
            raise malformed(f"no client {name!r} was opened")
        return self.clients[name]

    def hold(self, request: Request) -> leasehold.Guard | aio.Guard:
        name = request.need("hold", str)
        if name not in self.holds:
            raise leasehold.NotHeld(f"there is no hold {name!r}")
        return self.holds[name]

    def op_version(self, _request: Request) -> Fields:
        return {"language": "python", "version": leasehold.__version__}

    def op_open(self, request: Request) -> Fields:
        name = request.need("client", str)
        request.need("endpoints", list)
        texts = ("namespace", "identity", "user", "password", "ca_file", "cert_file", "key_file")
        spans = ("ttl", "connect_timeout", "request_timeout")
        options: Fields = {name: request.get(name, str) for name in texts}
        options |= {name: request.seconds(name + "_ms") for name in spans}
        client = leasehold.Client(request.texts("endpoints"), **options)
        self.former.append(self.clients.get(name))
        self.clients[name] = client
        return {}

    def op_ping(self, request: Request) -> Awaitable[Fields]:
        client = self.client(request)
        return nothing(self.run(request, FORMS[0] == "sync", aio.Client.of(client).ping, client.ping))

    def op_close(self, request: Request) -> Awaitable[Fields]:
        client = self.client(request)
        return nothing(self.run(request, FORMS[0] == "sync", aio.Client.of(client).close, client.close))

    def op_on_state(self, request: Request) -> None:
        name = request.need("client", str)
        client = self.client(request) if FORMS[0] == "sync" else aio.Client.of(self.client(request))
        tell = self.teller("state", client=name)
        self.subscribe(request, lambda: client.on_state(lambda state: tell(state=state.name.upper())))

    def op_acquire(self, request: Request) -> Awaitable[Fields]:
        mode = request.one_of("mode", "wait", "try")
        is_sync = request.one_of("via", *FORMS) == "sync"
        hold, client = request.need("hold", str), self.client(request)
        options: Fields = {"ttl": request.seconds("ttl_ms"), "timeout": request.seconds("wait_ms")}
        options |= {"local_first": request.local_first(), "linger": request.seconds("linger_ms")}
        for flag in ("renew", "requeue"):
            if (value := request.get(flag, bool)) is not None:
                options[flag] = value
        several = request.objects("locks")
        shape = client if is_sync else aio.Client.of(client)
        lock: Any
        if several is None:
            lock = locking(shape, request, options)
        else:
            lock = shape.all(*(locking(shape, one, {}) for one in several), **options)
        if not is_sync:
            return self.acquired(hold, attempt(lock, mode), several is not None)
        cancel = leasehold.Cancel()
        self.requests[json.dumps(request.fields["id"])] = cancel.cancel
        return self.acquired(hold, in_thread(attempt, lock, mode, cancel=cancel), several is not None)

    def op_campaign(self, request: Request) -> Awaitable[Fields]:
        hold, value = request.need("hold", str), request.need("value", str)
        name, client, wait = request.need("election", str), self.client(request), request.seconds("wait_ms")
        if request.one_of("via", *FORMS) == "async":
            return self.acquired(hold, aio.Client.of(client).election(name).campaign(value, wait))
        cancel = leasehold.Cancel()
        self.requests[json.dumps(request.fields["id"])] = cancel.cancel
        return self.acquired(hold, in_thread(client.election(name).campaign, value, wait, cancel=cancel))

    def op_proclaim(self, request: Request) -> Awaitable[Fields]:
        value, guard = request.need("value", str), self.hold(request)
        if not isinstance(guard, (leasehold.Leadership, aio.Leadership)):
            raise leasehold.InvalidArgument("the guard of a lock has nothing to proclaim")
        return nothing(self.under(request, guard, guard.proclaim, value))

    async def op_leader(self, request: Request) -> Fields:
        name, client = request.need("election", str), self.client(request)
        election, blocking = aio.Client.of(client).election(name), client.election(name)
        return leading(await self.run(request, FORMS[0] == "sync", election.leader, blocking.leader))

    async def op_observe(self, request: Request) -> None:
        watch, name, client = request.need("watch", str), request.need("election", str), self.client(request)
        if FORMS[0] == "sync":
            observation = client.election(name).observe()
            following, end = in_thread(self.follow, watch, request, observation), observation.close
            await self.watched(watch, following, end)
        else:
            observed = aio.Client.of(client).election(name).observe()
            task = asyncio.ensure_future(self.follow_async(watch, request, observed))
            # Cancelled when nobody observes any more, which is no answer to this.
            await self.watched(watch, asyncio.wait({task}), task.cancel)

    async def watched(self, watch: str, following: Awaitable[object], end: Callable[[], object]) -> None:
        # A name that is given anew stands for the new one, and the old one goes on.
        self.former.append(self.watches.get(watch))
        self.watches[watch] = end
        await following

    def follow(self, watch: str, request: Request, observed: leasehold.Observation) -> None:
        tell, is_first = self.teller("leader", watch=watch), True
        try:
            for leader in observed:
                self.told(request, tell, leader, is_first)
                is_first = False
        except leasehold.LeaseholdError as error:
            if is_first:
                refuse(request.fields["id"], error)

    async def follow_async(self, watch: str, request: Request, observed: aio.Observation) -> None:
        tell, is_first = self.teller("leader", watch=watch), True
        try:
            async for leader in observed:
                self.told(request, tell, leader, is_first)
                is_first = False
        except leasehold.LeaseholdError as error:
            if is_first:
                refuse(request.fields["id"], error)

    def told(
        self, request: Request, tell: Callable[..., None], leader: leasehold.Leader | None, is_first: bool
    ) -> None:
        with output:
            if is_first:
                reply(request.fields["id"], {})
            tell(**leading(leader))

    def op_unobserve(self, request: Request) -> Fields:
        watch = request.need("watch", str)
        end = self.watches.pop(watch, None)
        if end is None:
            raise malformed(f"nobody observes as {watch!r}")
        end()
        return {}

    def op_metrics(self, request: Request) -> Fields:
        client = self.client(request)
        return {"text": str(client.metrics() if FORMS[0] == "sync" else aio.Client.of(client).metrics())}

    async def acquired(
        self, hold: str, attempt: Awaitable[leasehold.Guard | aio.Guard | None], is_several: bool = False
    ) -> Fields:
        guard = await attempt
        if guard is None:
            raise leasehold.LockTimeout("somebody holds it")
        self.former.append(self.holds.get(hold))
        self.holds[hold] = guard
        fields: Fields = {"key": guard.key, "token": guard.token, "sequence": guard.sequence, "lease": guard.lease}
        if is_several:
            fields["keys"] = list(guard.keys)
        return {**fields, "remaining_ms": int(guard.remaining * 1000)}

    def op_cancel(self, request: Request) -> Fields:
        target = json.dumps(request.fields.get("target"))
        if target == "null":
            raise malformed('the field "target" is missing')
        if target not in self.requests:
            raise malformed(f"no request {target} was made")
        # Where it is answered already, this comes too late, and does nothing.
        if (end := self.requests[target]) is not None:
            end()
        return {}

    def op_check(self, request: Request) -> Fields:
        guard = self.hold(request)
        return {"held": guard.held, "remaining_ms": int(guard.remaining * 1000)}

    def op_release(self, request: Request) -> Awaitable[Fields]:
        guard = self.hold(request)
        return nothing(self.under(request, guard, guard.release))

    def op_extend(self, request: Request) -> Awaitable[Fields]:
        span = request.need_whole("ttl_ms") / 1000
        guard = self.hold(request)
        return nothing(self.under(request, guard, guard.extend, span))

    def op_guarded_put(self, request: Request) -> Awaitable[Fields]:
        key, value = request.need("key", str), request.need("value", str)
        guard = self.hold(request)
        return nothing(self.under(request, guard, guard.put, key, value))

    async def op_guarded_delete(self, request: Request) -> Fields:
        key = request.need("key", str)
        guard = self.hold(request)
        await self.under(request, guard, guard.delete, key)
        return {"values": []}

    async def op_guarded_txn(self, request: Request) -> Fields:
        puts, deletes, gets = request.pairs("puts"), request.texts("deletes"), request.texts("gets")
        guard = self.hold(request)
        txn = guard.txn()
        for key, value in puts.items():
            txn.put(key, value)
        for key in deletes:
            txn.delete(key)
        for key in gets:
            txn.get(key)
        committed = await self.under(request, guard, txn.commit)
        return {"values": [None if value is None else value.decode(errors="replace") for value in committed.values]}

    def op_on_lost(self, request: Request) -> None:
        hold, guard = request.need("hold", str), self.hold(request)
        tell = self.teller("lost", hold=hold)
        self.subscribe(request, lambda: guard.on_lost(lambda reason: tell(reason=reason.name)))

    async def op_queue(self, request: Request) -> Fields:
        names = ("key", "token", "lease", "identity", "foreign")
        name, client = request.need("lock", str), self.client(request)
        lock, blocking = aio.Client.of(client).lock(name), client.lock(name)
        contenders = await self.run(request, FORMS[0] == "sync", lock.queue, blocking.queue)
        return {"contenders": [{name: getattr(one, name) for name in names} for one in contenders]}

    def op_force_release(self, request: Request) -> Awaitable[Fields]:
        name, token = request.need("lock", str), request.need_whole("token")
        client = self.client(request)
        lock, blocking = aio.Client.of(client).lock(name), client.lock(name)
        return nothing(self.run(request, FORMS[0] == "sync", lock.force_release, blocking.force_release, token))

    def under(
        self, request: Request, guard: leasehold.Guard | aio.Guard, function: Callable[..., Any], *args: object
    ) -> Any:
        """What is done with a hold: it takes the form in which that was acquired."""
        return self.run(request, isinstance(guard, leasehold.Guard), function, function, *args)

    def run(
        self,
        request: Request,
        is_sync: bool,
        function: Callable[..., Any],
        blocking: Callable[..., Any],
        *args: object,
    ) -> Any:
        """Starts the one form or the other; something to await for what it brings."""
        if not is_sync:
            return function(*args)
        id_ = json.dumps(request.fields["id"])
        self.requests[id_] = stuck

        def call() -> Any:
            try:
                return blocking(*args)
            finally:
                self.requests[id_] = lambda: None

        return in_thread(call)

    def teller(self, event: str, **about: str) -> Callable[..., None]:
        return lambda **news: write({"event": event, **about, **news})

    def subscribe(self, request: Request, ask: Callable[[], object]) -> None:
        """Answers before the first event is told: whoever tells one waits for the output."""
        with output:
            ask()
            reply(request.fields["id"], {})


def locking(client: leasehold.Client | aio.Client, request: Request, options: Fields) -> Any:
    """The lock that an acquire, or one of several in it, asks for."""
    name, kind = request.need("lock", str), request.get("kind", str)
    permits, limit = request.whole("permits"), request.whole("limit")
    if kind == "semaphore":
        if limit is None:
            raise malformed('a semaphore needs the field "limit"')
        return client.semaphore(name, limit, permits=1 if permits is None else permits, **options)
    if kind not in (None, "mutex", "shared"):
        raise unsupported(f"there is no lock of the kind {kind!r}")
    if permits is not None or limit is not None:
        raise leasehold.InvalidArgument("only a semaphore has permits and a limit")
    return client.rwlock(name, **options).read() if kind == "shared" else client.lock(name, **options)


def leading(leader: leasehold.Leader | None) -> Fields:
    if leader is None:
        return {"value": None, "token": None}
    return {"value": leader.value.decode(errors="replace"), "token": leader.token}


def stuck() -> None:
    raise unsupported("Python cannot end this blocking call from another thread")


def parse(line: bytes) -> Fields:
    """The fields of a request.

    Python reads more than JSON is: NaN and the like, and characters that no UTF-8 can say.
    """
    try:
        fields = json.loads(line, parse_constant=not_json)
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise malformed(f"a request is a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise malformed("a request is a JSON object")
    return fields


def not_json(constant: str) -> None:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)


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


def finish(id_: object, task: asyncio.Task[Fields | None]) -> None:
    if task.cancelled():
        refuse(id_, leasehold.OperationCancelled("its task was cancelled"))
    elif (error := task.exception()) is None:
        if (fields := task.result()) is not None:  # Otherwise it was given.
            reply(id_, fields)
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
    lines = asyncio.StreamReader(limit=2**30)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        driver.line(line)
    # As a crash would: no handler of ours or of Python's runs.
    os._exit(0)


output = threading.RLock()
asyncio.run(main())

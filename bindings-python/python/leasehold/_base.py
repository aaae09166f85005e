"""What the clients and locks of threads and of event loops have in common: options, and calls that are not started yet."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Generic

from leasehold import _logs, _native
from leasehold._scopes import G, Scopes
from leasehold._values import endpoints, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence


class ClientBase:
    """A client: one etcd cluster, the connections to it, and the sessions of its locks."""

    __slots__ = ("__weakref__", "_native", "_place")

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        ttl: float | None = None,
        namespace: str | None = None,
        identity: str | None = None,
        user: str | None = None,
        password: str | None = None,
        plaintext_password: bool | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        connect_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> None:
        """Checks the options. Opens no connection and starts no thread: the first operation does.

        Args:
            url: One endpoint or several, as a list or separated by commas, such as `http://127.0.0.1:2379`; options can follow
                behind a question mark. `memory://name` is a store inside this process, for unit tests, shared by all its
                clients of that name; `memory://` is one of this client's own.
            ttl: How long a lock stays taken after its owner crashed: 2 s to 30 days, rounded up to whole seconds; default 15 s.
            namespace: Put before every name and every key that a guard writes.
            identity: Shown to whoever looks at the queue; default `<host>:<pid>`.
            user: Where etcd asks for one.
            password: The user's.
            plaintext_password: Whether the password may go over plain `http://` to other machines, where everybody on the way
                can read it; default no. To this machine itself, and over `https://`, it always may.
            ca_file: Authorities to trust (PEM); default: those that the machine trusts.
            cert_file: Our own certificate (PEM), where etcd asks for one.
            key_file: Its key (PEM).
            connect_timeout: To open one connection, in seconds, 0.01 to 3600; default 2.
            request_timeout: For one operation that does not wait for a lock, all attempts together; likewise; default 5.

        Raises:
            InvalidArgument: an option is wrong; the message says which, and what it should be.
        """
        url = endpoints(url)
        if url == "memory://":
            url += uuid.uuid4().hex
        self._place = f"{url} {namespace or ''}"
        self._native = _native.Client(
            url,
            ttl_ms=milliseconds(ttl, "the TTL"),
            namespace=namespace,
            identity=identity,
            user=user,
            password=password,
            plaintext_password=plaintext_password,
            ca_file=_path(ca_file),
            cert_file=_path(cert_file),
            key_file=_path(key_file),
            connect_timeout_ms=milliseconds(connect_timeout, "the connect timeout"),
            request_timeout_ms=milliseconds(request_timeout, "the request timeout"),
        )

    @property
    def identity(self) -> str:
        """Who this client says it is to whoever looks at a queue."""
        return self._native.identity

    def __reduce__(self) -> str:
        """Refuses: its connections cannot travel."""
        msg = "a client stays in its process; make one in each (after a fork, the same object goes on working)"
        raise TypeError(msg)


class LockBase(Generic[G]):
    """A name that can be locked, and how it is to be locked. Costs nothing; only guards hold."""

    __slots__ = ("_native", "_renew", "_requeue", "_scopes", "_ttl_ms", "_wait_ms", "name")

    def __init__(
        self, client: ClientBase, name: str, ttl: float | None, timeout: float | None, renew: bool, requeue: bool
    ) -> None:
        """Locks come from clients."""
        self._native = client._native  # pyright: ignore[reportPrivateUsage] - of this module
        place = client._place  # pyright: ignore[reportPrivateUsage]
        self._scopes: Scopes[G] = Scopes(f"{place} {name}", name)
        self.name = name
        self._ttl_ms = milliseconds(ttl, "the TTL")
        self._wait_ms = milliseconds(timeout, "the timeout")
        self._renew = renew
        self._requeue = requeue

    def _acquiring(self, timeout: float | None, cancel: _native.Cancel | None = None) -> _native.Call[_native.Guard]:
        _logs.attend()
        wait = self._wait_ms if timeout is None else milliseconds(timeout, "the timeout")
        return self._native.acquire(self.name, wait, self._ttl_ms, self._renew, self._requeue, cancel)

    def __repr__(self) -> str:
        """For people."""
        return f"<{type(self).__module__}.Lock {self.name!r}>"


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)

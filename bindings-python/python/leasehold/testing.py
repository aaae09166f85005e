"""For the tests of programs that lock: an etcd of their own, and locks that are lost on demand.

Most tests need neither: `leasehold.Client("memory://")` is a store inside the process.

With pytest, say `pytest_plugins = ["leasehold.testing"]` in the outermost `conftest.py`; then the fixture `leasehold_client` is a
client of such a store, and `leasehold_etcd` an `Etcd` for the whole run.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasehold import _dispatch
from leasehold._base import insides
from leasehold._completions import losses
from leasehold._errors import LeaseholdError, Unsupported
from leasehold._guard import native
from leasehold._sync import Client

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from typing_extensions import Self

    from leasehold._base import ClientBase
    from leasehold._guard import GuardBase

__all__ = ["Etcd", "lose"]

_START_SECONDS = 30.0
_LOSS_SECONDS = 10.0
_PING_SECONDS = 0.02


class Etcd:
    """An etcd on loopback, alone, with its data in a directory that goes away with it.

    with Etcd() as etcd, Client(etcd.url) as client:
        client.ping()
    """

    def __init__(self, program: str | os.PathLike[str] | None = None) -> None:
        """Starts it and waits until it serves.

        Args:
            program: The etcd to start; the one that `LEASEHOLD_ETCD` names, or the first on the `PATH`, if it is not given.

        Raises:
            Unsupported: there is none, or it does not come up within 30 s.
        """
        found = program or os.environ.get("LEASEHOLD_ETCD") or shutil.which("etcd")
        if found is None:
            msg = "there is no etcd on the PATH; install one, or name one in LEASEHOLD_ETCD"
            raise Unsupported(msg)
        self._directory = tempfile.TemporaryDirectory(prefix="leasehold-etcd-")
        self._ports = [_reserve(), _reserve()]
        clients, peers = (f"http://127.0.0.1:{port.getsockname()[1]}" for port in self._ports)
        if sys.platform != "linux":
            # There, etcd could not have them as long as we do.
            self._give_back()
        self.url: str = clients
        """Its endpoint."""
        with open(os.path.join(self._directory.name, "log"), "wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program is the user's choice
                [
                    os.fspath(found),
                    *("--name", "test", "--data-dir", os.path.join(self._directory.name, "data")),
                    *("--listen-client-urls", clients, "--advertise-client-urls", clients),
                    *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                    *("--initial-cluster", f"test={peers}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Its process, for tests that stop it for a while (`SIGSTOP`, `SIGCONT`) or kill it."""
        return self._process.pid

    def revoke(self, guard: GuardBase) -> None:
        """Ends the lease of `guard`, and so all that its client holds with that TTL, and waits until it knows.

        The reason is `LEASE_REVOKED`.

        Raises:
            OSError: this etcd has no such lease, or did not answer.
            TimeoutError: the guard has not noticed within 10 s.
        """
        request = urllib.request.Request(  # noqa: S310 - to the etcd that was started here
            f"{self.url}/v3/lease/revoke", json.dumps({"ID": str(int(guard.lease, 16))}).encode(), method="POST"
        )
        # On loopback no proxy of the environment can help.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with _noticed(guard), direct.open(request, timeout=_LOSS_SECONDS):
            pass

    def stop(self) -> None:
        """Ends it and removes its data. Twice is no error."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._give_back()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        """The etcd itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.stop()

    def _give_back(self) -> None:
        for port in self._ports:
            port.close()

    def _wait(self) -> None:
        until = time.monotonic() + _START_SECONDS
        with Client(self.url, request_timeout=1) as client:
            while True:
                try:
                    client.ping()
                    # Whoever answers there, it is not this one once it has ended.
                    if self._process.poll() is None:
                        return
                    msg = "another process listens on its port"
                    raise Unsupported(msg)
                except LeaseholdError as error:
                    if self._process.poll() is not None or time.monotonic() > until:
                        with open(os.path.join(self._directory.name, "log"), errors="replace") as log:
                            end = "".join(log.readlines()[-5:])
                        msg = f"etcd did not come up: {error}; the end of its log: {end}"
                        raise Unsupported(msg) from None
                    time.sleep(_PING_SECONDS)


def lose(client: ClientBase, guard: GuardBase) -> None:
    """Takes the lock away from `guard`, as an administrator could, and waits until it knows: the reason is `KEY_DELETED`.

    Works with every client of the same etcd (or `memory://` store) and namespace, and with guards of threads and of loops.

    >>> client = Client("memory://")
    >>> guard = client.lock("/lock/a").acquire()
    >>> lose(client, guard)
    >>> guard.held
    False

    Raises:
        NotHeld: it holds nothing any more. Otherwise as `leasehold.Lock.force_release`.
        TimeoutError: it has not noticed within 10 s.
    """
    asks, _ = insides(client)
    with _noticed(guard):
        asks.force_release(guard.name, guard.token).block()


@contextmanager
def _noticed(guard: GuardBase) -> Generator[None]:
    """Waits until the guard knows what the block did to it."""
    is_told = threading.Event()
    # Told on the thread for callbacks: a loop that runs here waits meanwhile.
    _dispatch.start(native(guard).lost(), losses(lambda _: is_told.set()))
    yield
    if not is_told.wait(_LOSS_SECONDS):
        msg = f"{guard!r} has not noticed its loss; are its client and this one on the same etcd and namespace?"
        raise TimeoutError(msg)


def _reserve() -> socket.socket:
    # Bound, and never listening. While it stands, Linux gives its port to nobody else who asks for any, and a server that
    # marks its listener the same way, as all do that can be restarted, can have it.
    port = socket.socket()
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("127.0.0.1", 0))
    return port


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture(scope="session")
    def leasehold_etcd() -> Iterator[Etcd]:
        """An etcd for the whole run; skips what asks for it where there is none."""
        try:
            etcd = Etcd()
        except Unsupported as error:
            pytest.skip(str(error))
        with etcd:
            yield etcd

    @pytest.fixture
    def leasehold_client() -> Iterator[Client]:
        """A client of a store of its own, `memory://`, for one test; `aio.Client.of` makes one for a loop of it."""
        with Client("memory://") as client:
            yield client

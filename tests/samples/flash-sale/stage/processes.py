"""The processes of the sale: Redis, nginx, etcd and the service, each a child of ours on loopback, ended by its id."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SAMPLE = Path(__file__).resolve().parents[1]
# Where scripts/setup.sh unpacks Debian's packages, for machines that have none installed.
UNPACKED = ROOT / ".cache" / "debian-sale"
LIBRARIES = UNPACKED / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
START_SECONDS = 180
RESERVED: list[socket.socket] = []
# All of it is on loopback, where no proxy of the environment can help.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class StageError(Exception):
    """What could not be started, and what it said."""


def reserve_ports(count: int) -> list[int]:
    """Ports that nobody else is given as long as this process lives.

    Each is bound by a socket of ours that never listens. A server that marks its listener the same way, as all here do, can have
    it, and again when it is started anew.
    """
    for _ in range(count):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
        RESERVED.append(each)
    return [each.getsockname()[1] for each in RESERVED[-count:]]


def program(name: str) -> str:
    """An installed program, or the one that was unpacked."""
    unpacked = [UNPACKED / "usr" / "bin" / name, UNPACKED / "usr" / "sbin" / name]
    found = shutil.which(name) or next((str(path) for path in unpacked if path.exists()), None)
    if not found:
        raise StageError(f"there is no {name}; run: scripts/setup.sh sample")
    return found


def wait_until(what: str, condition, seconds: float = START_SECONDS, process: "Child | None" = None):
    """Polls until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        if process and process.popen.poll() is not None:
            raise StageError(f"{what}: it ended with {process.popen.returncode}\n{process.said()}")
        if time.monotonic() > deadline:
            raise StageError(f"{what}: not within {seconds:.0f} s\n{process.said() if process else ''}")
        time.sleep(0.002)


class Child:
    """One process with a log of its own."""

    def __init__(self, name: str, command: list[str], directory: Path, **options):
        self.name, self.log = name, directory / f"{name}.log"
        environment = dict(os.environ)
        if LIBRARIES.is_dir() and command[0].startswith(str(UNPACKED)):
            environment["LD_LIBRARY_PATH"] = str(LIBRARIES)
        with self.log.open("ab") as log:
            options.setdefault("stdin", subprocess.DEVNULL)
            options.setdefault("stdout", log)
            # A session of its own: an interrupt from the keyboard reaches us alone, and we end the rest in order.
            self.popen = subprocess.Popen(command, stderr=log, env=environment, start_new_session=True, **options)

    def said(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    def signal(self, number: int) -> None:
        os.kill(self.popen.pid, number)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> None:
        if self.popen.poll() is not None:
            return
        self.signal(signal.SIGCONT)
        self.popen.terminate()
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


class Redis(Child):
    """A real Redis without persistence, and the few commands that the runs need."""

    def __init__(self, port: int, directory: Path):
        self.port, self.connection = port, None
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory)]
        super().__init__("redis", [program("redis-server"), *options], directory)
        wait_until("redis", self._connect, process=self)

    def _connect(self) -> bool:
        try:
            self.connection = socket.create_connection(("127.0.0.1", self.port), 5)
        except OSError:
            return False
        self.replies = self.connection.makefile("rb")
        return self.ask("PING") == "PONG"

    def ask(self, command: str) -> str | None:
        """One command in Redis' inline form, whose answer is a single line or a short value."""
        self.connection.sendall(command.encode() + b"\r\n")
        line = self.replies.readline().decode().rstrip("\r\n")
        if line.startswith("-"):
            raise StageError(f"redis: {command}: {line}")
        if not line.startswith("$"):
            return line[1:]
        return None if line == "$-1" else self.replies.readline().decode().rstrip("\r\n")

    def number(self, key: str) -> int:
        return int(self.ask(f"GET {key}") or 0)


class Nginx(Child):
    """A real nginx that hands requests to the instances in turn, and never asks a second one."""

    def __init__(self, port: int, instances: list[int], directory: Path):
        servers = "\n".join(f"    server 127.0.0.1:{each} max_fails=0;" for each in instances)
        places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        temporary = "\n".join(f"  {place}_temp_path {directory}/{place};" for place in places)
        (directory / "nginx.conf").write_text(f"""\
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
{temporary}
  upstream sale {{
{servers}
  }}
  server {{
    listen 127.0.0.1:{port} backlog=2048;
    location / {{
      proxy_pass http://sale;
      # A request that failed is not sent again: whether it was carried out is not known.
      proxy_next_upstream off;
      proxy_read_timeout 120s;
    }}
  }}
}}
""")
        command = [program("nginx"), "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]
        super().__init__("nginx", command, directory)
        wait_until("nginx", lambda: listens(port), process=self)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Etcd(Child):
    """A real etcd from the project's harness, which ends it when its stdin is closed."""

    def __init__(self, directory: Path):
        command = ["cargo", "run", "--quiet", "-p", "leasehold-etcd", "--", "--version", "any"]
        super().__init__("etcd", command, directory, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.popen.stdout.readline()
        if not line:
            raise StageError(f"etcd did not start\n{self.said()}")
        told = json.loads(line)
        self.endpoint, self.release = told["endpoints"][0], told["version"]

    def queue(self, prefix: str) -> list[str]:
        """The contenders below a prefix, the owner first."""
        from base64 import b64decode, b64encode

        encode = lambda text: b64encode(text.encode()).decode()  # noqa: E731
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": encode(prefix), "range_end": encode(end), "sort_target": "CREATE", "keys_only": True}
        request = urllib.request.Request(f"{self.endpoint}/v3/kv/range", json.dumps(body).encode())
        with DIRECT.open(request, timeout=10) as response:
            return [b64decode(pair["key"]).decode() for pair in json.load(response).get("kvs", [])]

    def stop(self) -> None:
        self.popen.stdin.close()
        try:
            self.popen.wait(15)
        except subprocess.TimeoutExpired:
            super().stop()


class Instance(Child):
    """One instance of the service; it can be killed, frozen, woken and started anew."""

    def __init__(self, name: str, port: int, redis: Redis, etcd: Etcd, ttl: int, directory: Path):
        self.port = port
        self.setting = (name, port, redis, etcd, ttl, directory)
        options = {
            "server.port": port,
            "spring.data.redis.port": redis.port,
            "etcd.servers": etcd.endpoint,
            "leasehold.ttl": f"{ttl}s",
            "sale.instance": name,
        }
        jar = SAMPLE / "target" / "flash-sale.jar"
        if not jar.exists():
            raise StageError("the service is not built; run: make build")
        command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", str(jar)]
        super().__init__(name, command + [f"--{key}={value}" for key, value in options.items()], directory)

    def wait_ready(self) -> None:
        wait_until(f"instance {self.name}", self._is_ready, process=self)

    def _is_ready(self) -> bool:
        try:
            with DIRECT.open(f"http://127.0.0.1:{self.port}/ready", timeout=5) as response:
                return response.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def again(self) -> "Instance":
        return Instance(*self.setting)

"""A machine that is thrown away: a root with layers of changes over it, the tools that people install by hand, and a user.

Changes go to a layer of their own (overlayfs), so that many machines start from the same root, or from where another one
stands. A command runs in namespaces of its own: what it mounts or leaves running is gone with it. The network is that of
the machine that plays, and the ways to its package registries are taken over from there.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bare import roots

INSIDE = Path(__file__).resolve().parent / "inside.py"
# Docker's, and so the least that is usual.
SHM = "size=64m"
CHECKOUT = "leasehold"
# In the scratch directory of a machine that is whole, for a run that goes on with it.
KEPT = "kept"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How a machine reaches its registries, and whom it trusts; nothing else of the environment is taken over.
CARRIED = re.compile(
    r"(?i)^(https?_proxy|all_proxy|no_proxy|.*_ca_?certs?|.*_ca_bundle|.*_ca_?info|ssl_cert_(file|dir)|pip_(cert|index_url|"
    r"extra_index_url|proxy|trusted_host|default_timeout)|npm_config_(registry|cafile|.*proxy)|cargo_http_.*|cargo_registries_.*|"
    r"cargo_source_.*|goproxy|gosumdb|gonosumdb|gonosumcheck|goprivate|goflags|gotoolchain|maven_opts|maven_args)$"
)
CARRIED_FILES = [
    ".cargo/config.toml",
    ".cargo/config",
    ".npmrc",
    ".config/pip/pip.conf",
    ".config/go/env",
    ".m2/settings.xml",
]
CARRIED_SYSTEM_FILES = ["/etc/pip.conf"]


class Failure(Exception):
    """What somebody at such a machine would have stumbled over, and the log that has all of it, if one has."""

    def __init__(self, text: str, log: Path | None = None) -> None:
        super().__init__(text)
        self.log = log


class Skip(Exception):
    """The check says nothing here; the text says why."""


@dataclass
class User:
    name: str
    number: int
    home: str


USERS = {"root": User("root", 0, "/root"), "plain": User(roots.USER, roots.USER_ID, f"/home/{roots.USER}")}
ADMIN = USERS["root"]


@dataclass
class Tool:
    """What people install by hand, and where they put it: directories of this machine, read-only in the other.

    And symbolic links beside them, by their place, with what they point to.
    """

    binds: dict[str, str]
    path: str
    links: dict[str, str] = field(default_factory=dict)


def hand_installed() -> dict[str, Tool]:
    """Rust, Go and Node of this machine: their makers' downloads, not Debian's packages."""
    found = {}
    if sysroot := told("rustc", "--print", "sysroot"):
        found["rust"] = Tool({sysroot: "/opt/rust"}, "/opt/rust/bin")
    if goroot := told("go", "env", "GOROOT"):
        found["go"] = Tool({goroot: "/usr/local/go"}, "/usr/local/go/bin")
    node, npm = (shutil.which(name) for name in ("node", "npm"))
    if node and npm:
        package = Path(npm).resolve().parents[1]
        found["node"] = Tool(
            {str(Path(node).resolve()): "/opt/node/bin/node", str(package): "/opt/node/lib/node_modules/npm"},
            "/opt/node/bin",
            {f"/opt/node/bin/{name}": f"../lib/node_modules/npm/bin/{name}-cli.js" for name in ("npm", "npx")},
        )
    return found


def told(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@dataclass(eq=False)
class Machine:
    """One machine. `layers` are what it starts from, the topmost first; `scratch` is where its own changes go."""

    layers: list[Path]
    scratch: Path
    user: User
    log: Path
    tools: dict[str, Tool]
    environment: dict[str, str] = field(default_factory=dict)
    shm: str = SHM
    tmp: str = ""
    # Whether it has loopback only.
    is_offline: bool = False
    deadline: float = float("inf")

    def __post_init__(self) -> None:
        if self.scratch.exists() and not (self.scratch / KEPT).exists():
            shutil.rmtree(self.scratch)
        for name in ("upper", "work", "top"):
            (self.scratch / name).mkdir(parents=True, exist_ok=True)
        # As a root has it: what does not lie over a directory of a lower layer must be readable to everybody.
        (self.scratch / "upper").chmod(0o755)

    def derived(self, name: str, **differences: object) -> "Machine":
        """A machine that starts from where this one stands now. This one must not be used while that one is."""
        given = {
            "layers": [self.scratch / "upper", *self.layers],
            "scratch": self.scratch.with_name(name),
            "user": self.user,
            "log": self.log,
            "tools": self.tools,
            "environment": self.environment,
            "shm": self.shm,
            "deadline": self.deadline,
        }
        return Machine(**{**given, **differences})

    @property
    def checkout(self) -> str:
        return f"{self.user.home}/{CHECKOUT}"

    def settle(self) -> None:
        """Brings the user's settings, as far as they say how to reach registries, and the tree of files as git knows it."""
        home = self.scratch / "upper" / self.user.home.lstrip("/")
        make_like_below(self.layers[-1], self.scratch / "upper", home)
        for name in CARRIED_FILES:
            if (source := Path.home() / name).is_file():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, home / name)
        subprocess.run(["chown", "-R", f"{self.user.number}:{self.user.number}", home], check=True)
        self.bring_checkout()

    def bring_checkout(self) -> None:
        """Writes the files that git knows, or would add, as they are now; what did not change keeps its time."""
        home = self.scratch / "upper" / self.user.home.lstrip("/")
        make_like_below(self.layers[-1], self.scratch / "upper", home)
        checkout = home / CHECKOUT
        checkout.mkdir(exist_ok=True)
        # Under sudo the checkout belongs to somebody else.
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=roots.ROOT, capture_output=True, check=True).stdout.split(b"\0")
        listed = b"\0".join(name for name in names if name and (roots.ROOT / os.fsdecode(name)).exists())
        owner = [f"--owner={self.user.number}", f"--group={self.user.number}"]
        command = ["tar", "--null", "--no-recursion", "-T", "-", *owner, "-cf", "-"]
        with tempfile.TemporaryFile() as packed:
            subprocess.run(command, cwd=roots.ROOT, input=listed, stdout=packed, check=True)
            packed.seek(0)
            subprocess.run(["tar", "-C", checkout, "--same-owner", "-xf", "-"], stdin=packed, check=True)
        # Directories are not listed, and so belong to who has unpacked them.
        subprocess.run(["chown", "-R", f"{self.user.number}:{self.user.number}", home / CHECKOUT], check=True)

    def sh(
        self,
        script: str,
        *,
        user: User | None = None,
        directory: str | None = None,
        expect: int | None = 0,
        is_offline: bool = False,
        **environment: str,
    ) -> str:
        """Runs a script of the shell as the machine's user (or as another), in the checkout (or elsewhere).

        Returns what it printed, on both channels. Fails if it ends otherwise than expected (None: however it likes), or the
        time is over.
        """
        user = user or self.user
        path = ":".join([*(tool.path for tool in self.tools.values()), SYSTEM_PATH])
        carried = {name: value for name, value in os.environ.items() if CARRIED.match(name)}
        variables = {
            **carried,
            "PATH": path,
            "HOME": user.home,
            "USER": user.name,
            "LOGNAME": user.name,
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            # What only the next build would use takes half a gigabyte in each machine.
            "CARGO_INCREMENTAL": "0",
        }
        binds = {source: place for tool in self.tools.values() for source, place in tool.binds.items()}
        for name in ["/etc/resolv.conf", *CARRIED_SYSTEM_FILES]:
            if Path(name).exists():
                binds[str(Path(name).resolve())] = name
        wanted = {
            "scratch": str(self.scratch.parent),
            "layers": [os.path.relpath(layer, self.scratch.parent) for layer in self.layers],
            **{name: f"{self.scratch.name}/{name}" for name in ("upper", "work")},
            "top": str(self.scratch / "top"),
            "binds": binds,
            "links": {place: target for tool in self.tools.values() for place, target in tool.links.items()},
            "shm": self.shm,
            "tmp": self.tmp,
            "is_offline": self.is_offline or is_offline,
            "user": user.number,
            "group": user.number,
            "directory": directory if directory is not None else self.checkout,
            "environment": {**variables, **self.environment, **environment},
            "command": ["/bin/bash", "-euo", "pipefail", "-c", script],
        }
        return self._run(wanted, script, user, expect)

    def _run(self, wanted: dict, script: str, user: User, expect: int | None) -> str:
        unshared = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=KILL"]
        if wanted["is_offline"]:
            unshared.append("--net")
        # Nothing of it outlives this process, even where that is ended without a chance to clean up.
        command = ["setpriv", "--pdeathsig=KILL", *unshared, sys.executable, "-B", INSIDE, json.dumps(wanted)]
        limit = self.deadline - time.monotonic()
        if limit <= 0:
            raise Failure(f"no time was left for `{first_line(script)}`", self.log)
        with self.log.open("ab") as output:
            output.write(f"\n{user.name}@{wanted['directory']}$ {script}\n".encode())
            output.flush()
            begin = output.tell()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # By its end the process that runs inside is killed, and by that one's everything else there.
                process.send_signal(signal.SIGKILL)
                process.wait()
        said = self.log.read_bytes()[begin:].decode(errors="replace")
        if code is None:
            raise Failure(f"`{first_line(script)}` was stopped after {limit:.0f} s\n{tail(said)}", self.log)
        if expect is not None and code != expect:
            raise Failure(f"`{first_line(script)}` ended with {code}, not {expect}\n{tail(said)}", self.log)
        return said

    def discard(self) -> None:
        """Frees the disk. What was mounted is long gone: it was so in the namespaces of the commands only."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def make_like_below(lowest: Path, upper: Path, wanted: Path) -> None:
    """Makes a directory of the upper layer, and those above it, with the owner and the mode they have in the lowest."""
    current = upper
    for part in wanted.relative_to(upper).parts:
        current = current / part
        if not current.exists():
            below = (lowest / current.relative_to(upper)).stat()
            current.mkdir(mode=below.st_mode & 0o7777)
            os.chown(current, below.st_uid, below.st_gid)


def first_line(script: str) -> str:
    return script.strip().splitlines()[0]


def tail(said: str, lines: int = 25) -> str:
    return "\n".join("    " + line for line in said.rstrip().splitlines()[-lines:])


def quoted(text: str) -> str:
    return shlex.quote(text)

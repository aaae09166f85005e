"""One user at one Debian, and the states that the user's machine goes through, each made once and only if a check asks for it.

`bare` is the root, the checkout, Rust and Go. `built` is where `make demo` has left it. `full` has what the set-up of the tests
asked for, and everything built. `packed` goes on from `built`, and makes the package of a language when a check asks for it. What
`make` says is missing is installed as it says, by the administrator where the user may not.
"""

import re
import shutil
import subprocess
import time
from pathlib import Path

import java as coordinates

from bare import roots
from bare.machine import ADMIN, KEPT, USERS, Failure, Machine, Skip, Tool

# Each with those that it starts from, the last one first.
STATES = {"bare": [], "built": ["bare"], "full": ["built", "bare"], "packed": ["built", "bare"]}
# Which Debian's own Node is too old: there people install it by hand.
NODE_BY_HAND = ["bookworm"]
ADVICE = re.compile(r"apt-get install((?: +[a-z0-9][a-z0-9+.-]*| +-[a-zA-Z-]+)+)")
# How the package of a language is made, and what comes of it, seen from the user's home. For Java that is our part of a Maven
# repository.
MAVEN = (
    f'scripts/maven.sh --untested install -pl {",".join(coordinates.MODULES)} -am -Dmaven.repo.local="$HOME/published"'
)
PACKAGES = {
    "wheel": ("bindings-python/wheel", "leasehold/target/wheels/*.whl"),
    "npm": ("bindings-node/pack", "leasehold/target/npm/*.tgz"),
    "java": (f"scripts/setup.sh build && {MAVEN}", "published/io/leasehold"),
}


class Visit:
    def __init__(self, suite: str, user: str, work: Path, logs: Path, tools: dict[str, Tool]) -> None:
        self.suite, self.user, self.work, self.logs = suite, user, work, logs
        self.shelf = work / "shelf"
        self.tools = tools
        self.deadline = float("inf")
        self.begun = time.time()
        self._states: dict[str, Machine | Failure] = {}
        self._machines: list[Machine] = []
        # What somebody who reads the closing table wants to know beside the time.
        self.notes: list[str] = []

    def log(self, name: str) -> Path:
        return self.logs / f"{self.suite}-{self.user}-{name}.log"

    def state(self, name: str) -> Machine:
        """The machine in that state. For reading and for `derived`: a check changes a machine of its own."""
        if isinstance(self._states.get(name), Failure):
            raise Skip(f"what it starts from is not there: {self._states[name]}".splitlines()[0])
        if name not in self._states:
            try:
                if (self._scratch(name) / KEPT).exists():
                    self._states[name] = self._kept(name)
                else:
                    self._states[name] = made = getattr(self, f"_{name}")()
                    (made.scratch / KEPT).touch()
            except Failure as failure:
                self._states[name] = failure
                raise
        return self._states[name]

    def _kept(self, name: str) -> Machine:
        """The machine of an earlier run."""
        below = [self._scratch(each) / "upper" for each in STATES[name]]
        return Machine(
            [*below, self.root()], self._scratch(name), USERS[self.user], self.log(name), self._tools_of(name)
        )

    def _scratch(self, name: str) -> Path:
        return self.work / f"{self.suite}-{self.user}-{name}"

    def _tools_of(self, state: str) -> dict[str, Tool]:
        wanted = ["rust", "go"]
        if self.suite in NODE_BY_HAND and state in ("full", "packed"):
            wanted.append("node")
        return {name: self.tools[name] for name in wanted}

    def start(self, state: str, check: str, **differences: object) -> Machine:
        """A machine for a check, from where that state stands."""
        machine = self.state(state).derived(
            check, scratch=self._scratch(check), log=self.log(check), deadline=self.deadline, **differences
        )
        self._machines.append(machine)
        self._refresh(machine)
        return machine

    def _refresh(self, machine: Machine) -> None:
        """Brings the checkout as it is now, if that in the machine may be of an earlier run."""
        if (self.state("bare").scratch / KEPT).stat().st_mtime < self.begun:
            machine.bring_checkout()

    def alien(self, check: str, *wanted: str, tools: dict[str, Tool] | None = None) -> Machine:
        """A machine for a check without this project and what builds it: with these packages of Debian, and these tools."""
        machine = self._machine(check, tools or {})
        self.install(machine, *wanted)
        return machine

    def tidy(self, is_over: bool = False) -> None:
        """Removes the machines of checks, and at the end of the visit all: the disk has not the room for those of all visits."""
        kept = [] if is_over else [machine for machine in self._states.values() if isinstance(machine, Machine)]
        for machine in self._machines:
            if machine not in kept:
                machine.discard()
        self._machines = kept

    def root(self) -> Path:
        """The unpacked root. Machines that were kept on another one are of no use any more."""
        unpacked = self.work / roots.archive(self.suite).stem
        if not unpacked.exists():
            for stale in self.work.glob(f"{self.suite}-*"):
                shutil.rmtree(stale)
            roots.unpack(self.suite, unpacked)
        return unpacked

    def _machine(self, name: str, tools: dict[str, Tool]) -> Machine:
        return Machine(
            [self.root()], self._scratch(name), USERS[self.user], self.log(name), tools, deadline=self.deadline
        )

    def _bare(self) -> Machine:
        machine = self._machine("bare", self._tools_of("bare"))
        machine.settle()
        return machine

    def _built(self) -> Machine:
        machine = self.start("bare", "built")
        begun = time.monotonic()
        self.advised(machine, "make demo")
        self.notes.append(f"make demo: {time.monotonic() - begun:.0f} s")
        if not (self.shelf / "etcd").exists():
            self.shelve(machine, "etcd", ".cache/leasehold/etcd-*/etcd*")
        return machine

    def _full(self) -> Machine:
        machine = self.start("built", "full", tools=self._tools_of("full"))
        self.advised(machine, "scripts/setup.sh test")
        machine.sh("make build")
        return machine

    def _packed(self) -> Machine:
        return self.start("built", "packed", tools=self._tools_of("packed"))

    def packages(self, name: str) -> list[Path]:
        """What one installs in that language, packed here or at a newer Debian."""
        if not (self.shelf / name).exists():
            command, pattern = PACKAGES[name]
            machine = self.state("packed")
            machine.deadline = self.deadline
            self._refresh(machine)
            self.advised(machine, command)
            self.shelve(machine, name, pattern)
        return sorted((self.shelf / name).iterdir())

    def etcd(self) -> Tool:
        """An etcd that `make demo` has built in this run, for a machine that has none."""
        if not (self.shelf / "etcd").exists():
            self.state("built")
        return Tool({str(self.shelf / "etcd"): "/opt/etcd"}, "/opt/etcd")

    def shelve(self, machine: Machine, name: str, pattern: str) -> None:
        """Keeps what a machine has made, by its place in the user's home, for those that come after it."""
        home = machine.scratch / "upper" / machine.user.home.lstrip("/")
        if not (found := sorted(home.glob(pattern))):
            raise Failure(f"it has made no {pattern} in the user's home")
        (self.shelf / name).mkdir(parents=True)
        subprocess.run(["cp", "-R", *found, self.shelf / name], check=True)

    def advised(self, machine: Machine, command: str) -> str:
        """Runs a command of the project. A user who is told what is missing has it installed, and tries again, once."""
        if machine.user is ADMIN:
            return machine.sh(command)
        said = machine.sh(command, expect=None)
        packages = {word for words in ADVICE.findall(said) for word in words.split() if not word.startswith("-")}
        if packages:
            self.install(machine, *sorted(packages))
        return machine.sh(command)

    def install(self, machine: Machine, *packages: str) -> None:
        """What an administrator does."""
        if packages:
            script = (
                f"apt-get update -qq && apt-get install -qq -y --no-install-recommends {' '.join(packages)} >/dev/null"
            )
            machine.sh(script, user=ADMIN, directory="/", DEBIAN_FRONTEND="noninteractive")

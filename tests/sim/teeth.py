#!/usr/bin/env python3
"""Shows that the simulation and the search find faults: plants each fault of tests/sim/faults in a copy of the core, and plays.

The copy holds the state machines and the in-process etcd only, so that each fault costs seconds to build. A fault that none of the
means finds within its bound has escaped, and the run fails.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FAULTS = Path(__file__).resolve().parent / "faults"
COPY = ROOT / "target" / "teeth"
# What the copy keeps of the core: everything without I/O, and the store that needs none.
MACHINES = [
    "cleaner.rs", "clock.rs", "error.rs", "hub", "hub.rs", "process.rs", "queue", "queue.rs", "session.rs",
    "store.rs", "store/memory", "store/memory.rs",
]  # fmt: skip
# One of each kind, for every test run: order, deadline, leftovers, watches.
QUICK = ["foreign-key-skipped", "hand-off-after-deadline", "ambiguous-forgotten", "snapshot-before-watch"]
LIB = """//! The state machines alone.
pub mod cleaner;
pub mod clock;
mod error;
pub mod hub;
pub mod process;
pub mod queue;
pub mod session;
pub mod store;
pub use error::{Code, Error, LostReason, Result};
"""


def copy_core() -> None:
    """Makes the copy what the core is now; files that did not change keep their time, so that little is built anew."""
    wanted = {Path("core/src/lib.rs"): LIB, Path("core/Cargo.toml"): (ROOT / "core/Cargo.toml").read_text()}
    for name in MACHINES:
        source = ROOT / "core/src" / name
        files = [source] if source.is_file() else [path for path in source.rglob("*.rs") if path.is_file()]
        for path in files:
            wanted[path.relative_to(ROOT)] = path.read_text()
    store = Path("core/src/store.rs")
    wanted[store] = wanted[store].replace("pub mod etcd;\n", "")
    for path in [*(ROOT / "tests/sim/src").rglob("*.rs"), ROOT / "tests/sim/Cargo.toml", ROOT / "Cargo.lock"]:
        wanted[path.relative_to(ROOT)] = path.read_text()
    manifest = (ROOT / "Cargo.toml").read_text()
    wanted[Path("Cargo.toml")] = re.sub(r"^members = .*$", 'members = ["core", "tests/sim"]', manifest, flags=re.M)
    # Most faults are found at once: to optimise more would take longer than it saves.
    wanted[Path("Cargo.toml")] = wanted[Path("Cargo.toml")].replace("opt-level = 3", "opt-level = 1")
    # Only what the machines need: the rest of the core is not there.
    wanted[Path("core/Cargo.toml")] = trimmed(wanted[Path("core/Cargo.toml")])
    for path in (COPY / "core").rglob("*.rs"):
        if path.relative_to(COPY) not in wanted:
            path.unlink()
    for path, text in wanted.items():
        target = COPY / path
        if not target.exists() or target.read_text() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def trimmed(manifest: str) -> str:
    needed = {"getrandom", "libc", "once_cell", "rustix", "tokio", "tracing"}
    lines, section = [], ""
    for line in manifest.splitlines():
        if line.startswith("["):
            section = line
        is_dropped = "dependencies" in section and re.match(r"[\w-]+", line) and line.split(".")[0].split()[0] not in needed
        if not is_dropped and section not in ("[dev-dependencies]", "[lints]"):
            lines.append(line.replace("tokio.workspace = true", 'tokio = { workspace = true, features = ["macros", "rt", "sync", "time"] }'))
    return "\n".join(lines) + "\n"


def build() -> str | None:
    """Builds the copy; returns what the compiler said if it failed."""
    command = ["cargo", "build", "--quiet", "--offline", "--profile", "sim", "-p", "leasehold-sim"]
    # A build that is interrupted spoils the next incremental one.
    environment = {**os.environ, "CARGO_INCREMENTAL": "0"}
    done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode != 0 else None


def plays(arguments: list[str], limit: float) -> tuple[bool, str]:
    """Runs the copy's program; returns whether it found something, and what it said."""
    program = COPY / "target/sim/leasehold-sim"
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return False, "ran out of time"
    return done.returncode != 0, done.stdout.strip()


def gist(said: str) -> str:
    """After how much the fault was found, and as what."""
    lines = said.splitlines()
    for line in lines:
        if line.startswith("seed "):
            return line
    states = sum(int(count) for count in re.findall(r"(\d+) states[,;]", said))
    rule = next((line.strip() for line in lines if "BROKEN" in line), "panicked" if "panicked" in said else "")
    return f"after {states} states: {rule}"


def try_fault(patch: Path, options: argparse.Namespace) -> bool:
    """Plants one fault; says by what it is found and after how much."""
    copy_core()
    problem = plant(patch) or build()
    if problem is not None:
        print(f"{patch.stem:<30} CANNOT BE PLANTED\n{problem}", flush=True)
        return False
    means = [("simulation", ["--seeds", str(options.seeds)]), ("search", ["--search", str(options.states)])]
    for name, arguments in means:
        begun = time.monotonic()
        found, said = plays(arguments, options.limit)
        took = time.monotonic() - begun
        what = "found" if found else "not found"
        print(f"{patch.stem:<30} {name:<10} {what:<9} {took:6.1f} s  {gist(said)[:170]}", flush=True)
        if found:
            return True
    return False


def plant(patch: Path) -> str | None:
    """Applies a patch to the copy; returns what is wrong if it does not fit any more."""
    # No fuzz: what fits only nearly may break another place than it says.
    command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", patch]
    done = subprocess.run(command, cwd=COPY, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode != 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40_000, help="so many seeds for each fault at most")
    parser.add_argument("--states", type=int, default=30_000, help="so many states of each scenario of the search at most")
    parser.add_argument("--limit", type=float, default=600, help="so many seconds for each means and fault at most")
    parser.add_argument("--only", default="", help="only the faults whose names contain this; several with commas")
    parser.add_argument("--quick", action="store_true", help="only a few faults of different kinds")
    options = parser.parse_args()
    if options.quick:
        options.only = ",".join(QUICK)
    words = options.only.split(",")
    patches = [patch for patch in sorted(FAULTS.glob("*.patch")) if any(word in patch.stem for word in words)]
    if not patches:
        parser.error(f"no fault in {FAULTS.relative_to(ROOT)} contains {options.only!r}")
    COPY.mkdir(parents=True, exist_ok=True)
    lock = (COPY / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # two runs in one copy would mix their faults
    copy_core()
    problem = build()
    if problem is not None:
        print(problem)
        return 1
    found, said = plays(["--seeds", "100"], options.limit)
    if found:
        print(f"the core fails without any fault planted: {said}")
        return 1
    escaped = [patch.stem for patch in patches if not try_fault(patch, options)]
    copy_core()
    print(f"teeth: {len(patches) - len(escaped)} of {len(patches)} planted faults found")
    if escaped:
        print(f"escaped: {', '.join(escaped)}")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())

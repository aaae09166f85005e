#!/usr/bin/env python3
"""Shows that the simulation and the search find faults: plants each fault of tests/sim/faults in a copy of the core, and plays.

A fault is a patch. What stands before its first `---` says what it is, and has a line for each of these:

    rule: <the rule of the core that it breaks>
    found-as: <what is reported then, by the names of tests/sim/src/rules.rs; several with commas>

A fault that is found as something else, or by nobody within the bounds, has escaped, and the run fails. So does a patch that no
longer applies: that is checked of all of them, however few are played. Under faults/real lie those that only a real etcd shows;
instead of found-as they have `found-by: <the command that fails with it>`, and are only applied here.

The copy holds the state machines and the in-process etcd only, so that each fault costs seconds to build.
"""

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FAULTS = Path(__file__).resolve().parent / "faults"
# Beside what cargo builds elsewhere, and never among it: nobody wants a library with a fault in it.
COPY = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip()) / "teeth"
# There while the compiler runs. One that was interrupted may have spoilt what the next one goes on from.
BUILDING = COPY / "building"
# What the copy keeps of the core: everything without I/O, the store that needs none, and what real faults are planted in.
MACHINES = [
    "backoff.rs", "cleaner.rs", "clock.rs", "error.rs", "few.rs", "hold.rs", "hub", "hub.rs", "loan.rs", "observing", "observing.rs",
    "process.rs", "queue", "queue.rs", "session.rs", "store.rs", "store/memory", "store/memory.rs", "terms.rs", "text.rs",
]  # fmt: skip
HEADER = re.compile(r"^(rule|found-as|found-by): *(.*)$")
BROKEN = re.compile(r"BROKEN ([a-z-]+): (.*)")
# One of each kind, for every test run: order, deadline, leftovers, watches.
QUICK = ["foreign-key-skipped", "hand-off-after-deadline", "ambiguous-forgotten", "snapshot-before-watch"]
LIB = """//! The state machines alone.
pub mod backoff;
pub mod cleaner;
pub mod clock;
mod error;
mod few;
pub mod hub;
pub mod observing;
pub mod process;
pub mod queue;
pub mod session;
pub mod store;
pub mod terms;
mod text;
pub use error::{Code, Error, LostReason, Result};
pub use queue::admission::Claim;
"""


@dataclass
class Fault:
    """A patch, and what it says of itself."""

    patch: Path
    rule: str
    found_as: list[str]
    found_by: str

    @property
    def name(self) -> str:
        return self.patch.relative_to(FAULTS).with_suffix("").as_posix()


def read_fault(patch: Path) -> Fault:
    """Reads what a patch says of itself; ends the run if it says too little."""
    told = {"rule": "", "found-as": "", "found-by": ""}
    for line in patch.read_text().splitlines():
        if line.startswith("--- "):
            break
        if header := HEADER.match(line):
            told[header[1]] = header[2].strip()
    means = "found-by" if patch.parent != FAULTS else "found-as"
    lacking = [name for name in ("rule", means) if not told[name]]
    if lacking:
        sys.exit(f"{patch.relative_to(ROOT)} lacks a line `{lacking[0]}: …` before its first `---`")
    names = [name.strip() for name in told["found-as"].split(",") if name.strip()]
    return Fault(patch, told["rule"], names, told["found-by"])


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
    profile = (ROOT / "tests/sim/optimised.toml").read_text()
    wanted[Path("optimised.toml")] = profile.replace("opt-level = 3", "opt-level = 1")
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


def build() -> tuple[Path | None, str]:
    """Builds the copy; returns the program, or what the compiler said."""
    if BUILDING.exists():
        for spoilt in (COPY / "target").glob("**/incremental"):
            shutil.rmtree(spoilt)
    BUILDING.touch()
    command = ["cargo", "build", "--quiet", "--offline", "--config", "optimised.toml", "-p", "leasehold-sim"]
    command += ["--message-format", "json-render-diagnostics"]
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(COPY / "target"),
        # From one fault to the next a few functions change.
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }
    done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, check=False)
    BUILDING.unlink()
    if done.returncode != 0:
        return None, done.stderr
    programs = [message["executable"] for message in map(json.loads, done.stdout.splitlines()) if message.get("executable")]
    return Path(programs[-1]), ""


def plays(program: Path, arguments: list[str], limit: float) -> tuple[bool, str]:
    """Runs the program; returns whether it ended well, and what it said."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return True, "ran out of time"
    return done.returncode == 0, done.stdout.strip()


def effort(said: str) -> str:
    """After how much something was found."""
    seed = re.search(r"^seed (\d+):", said, flags=re.M)
    states = sum(int(count) for count in re.findall(r"(\d+) states[,;]", said))
    return f"seed {seed[1]}" if seed else f"{states} states"


def try_fault(fault: Fault, options: argparse.Namespace) -> bool:
    """Plants one fault; says by what it is found, as what and after how much."""
    copy_core()
    problem = plant(fault)
    program, said = (None, problem) if problem else build()
    if program is None:
        print(f"{fault.name:<32} CANNOT BE PLANTED\n{said}", flush=True)
        return False
    means = [("simulation", ["--seeds", str(options.seeds)]), ("search", ["--search", str(options.states)])]
    for name, arguments in means:
        begun = time.monotonic()
        went_well, said = plays(program, arguments, options.limit)
        took = f"{fault.name:<32} {name:<10} {time.monotonic() - begun:6.1f} s "
        broken = BROKEN.search(said)
        if broken and broken[1] in fault.found_as:
            print(f"{took} {effort(said)}: {broken[1]}: {broken[2][:120]}", flush=True)
            return True
        if not went_well:
            print(f"{took} FOUND AS SOMETHING ELSE than {', '.join(fault.found_as)}\n{said or 'it said nothing'}", flush=True)
            return False
        print(f"{took} not found{'; ' + said if said == 'ran out of time' else ''}", flush=True)
    return False


def plant(fault: Fault, *, only_try: bool = False) -> str:
    """Applies a patch to the copy; returns what is wrong if it does not fit any more."""
    # No fuzz: what fits only nearly may break another place than it says.
    command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--force", "-i", fault.patch]
    if only_try:
        command.append("--dry-run")
    done = subprocess.run(command, cwd=COPY, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode != 0 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40_000, help="so many seeds for each fault at most")
    parser.add_argument("--states", type=int, default=30_000, help="so many states of each scenario of the search at most")
    parser.add_argument("--limit", type=float, default=600, help="so many seconds for each means and fault at most")
    parser.add_argument("--only", default="", help="only the faults whose names contain this; several with commas")
    parser.add_argument("--quick", action="store_true", help="play only a few faults of different kinds; all must still apply")
    options = parser.parse_args()
    faults = [read_fault(patch) for patch in sorted(FAULTS.glob("**/*.patch"))]
    playable = [fault for fault in faults if fault.found_as]
    if options.quick:
        chosen = [fault for fault in playable if fault.name in QUICK]
        if len(chosen) != len(QUICK):
            sys.exit(f"not all of {', '.join(QUICK)} are in {FAULTS.relative_to(ROOT)}")
    else:
        chosen = [fault for fault in playable if any(word in fault.name for word in options.only.split(","))]
    if not chosen:
        parser.error(f"no fault in {FAULTS.relative_to(ROOT)} contains {options.only!r}")
    COPY.mkdir(parents=True, exist_ok=True)
    lock = (COPY / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # two runs in one copy would mix their faults
    copy_core()
    misfits = [fault.name for fault in faults if (said := plant(fault, only_try=True)) and not print(f"{fault.name}: {said}")]
    print(f"teeth: {len(faults) - len(misfits)} of {len(faults)} patches apply", flush=True)
    program, said = build()
    if program is None:
        print(said)
        return 1
    went_well, said = plays(program, ["--seeds", "100"], options.limit)
    if not went_well:
        print(f"the core fails without any fault planted: {said}")
        return 1
    rules = plays(program, ["--rules"], options.limit)[1].split()
    for fault in playable:
        if unknown := set(fault.found_as).difference(rules):
            sys.exit(f"{fault.name}: {', '.join(unknown)} is no rule; those are {', '.join(rules)}")
    escaped = [fault.name for fault in chosen if fault.name not in misfits and not try_fault(fault, options)]
    copy_core()
    found = len(chosen) - len(set(escaped + misfits).intersection(fault.name for fault in chosen))
    print(f"teeth: {found} of {len(chosen)} planted faults found as what they are")
    if escaped:
        print(f"escaped: {', '.join(escaped)}")
    return 1 if escaped or misfits else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs every check and test of the project, one stage after the other, and counts them in its last line.

A stage runs even when an earlier one failed. Its output goes to target/test-logs; of a failed stage the end is shown.
Ends with 0 only if nothing failed. `make test` calls this after scripts/setup.sh.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import counts

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test-logs"
# No stage may hang the rest: far above what each needs on two cores with cold caches.
LIMIT_SECONDS = 25 * 60
SHOWN_LINES = 60


@dataclass
class Stage:
    """One command. A `check` counts as one; `tests` are counted by what their runner prints, and at least one must run."""

    name: str
    kind: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


STAGES = [
    Stage("scripts", "tests", [sys.executable, "-B", "scripts/test_counts.py"]),
    Stage("scripts-setup", "tests", [sys.executable, "-B", "scripts/test_setup.py"]),
    Stage("lint-format", "check", ["cargo", "fmt", "--all", "--check", "--", "--color=never"]),
    Stage("lint-clippy", "check", ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Stage(
        "lint-doc",
        "check",
        # With the private items, so that the links among those are checked too.
        ["cargo", "doc", "--workspace", "--no-deps", "--document-private-items"],
        {"RUSTDOCFLAGS": "-D warnings"},
    ),
    Stage("lint-node", "check", ["bindings-node/lint"]),
    Stage("lint-python", "check", ["bindings-python/lint"]),
    # Before anything that asks for "any" etcd: from here on that is 3.7, as in the cache the newest comes first.
    Stage("servers", "check", ["cargo", "run", "-p", "leasehold-etcd", "--", "--build-only"]),
    # The tests on all versions are among them; each goes through the versions that it is about.
    Stage("workspace", "tests", ["cargo", "test", "--workspace", "--no-fail-fast", "--", "--show-output"]),
    # With operations that echo, panic and never answer.
    Stage("bridge", "tests", ["cargo", "test", "-p", "leasehold-bridge", "--features", "testing", "--no-fail-fast"]),
    # The same locks and queues under a scheduler that tries the orders of threads; a build of its own.
    Stage(
        "bridge-model",
        "tests",
        ["cargo", "test", "-p", "leasehold-bridge", "--features", "testing,model", "--test", "model"],
    ),
    Stage("c", "tests", [sys.executable, "-B", "ffi-c/tests/test_c.py"]),
    Stage("node", "tests", ["bindings-node/test"]),
    Stage("python", "tests", ["bindings-python/test"]),
    # With their documentation, whose warnings fail it.
    Stage("java", "tests", ["scripts/maven.sh", "--verbose", "verify", "-Prelease"]),
    # After what has built it. `make sample` plays the copied lock, too.
    Stage("sample-sale", "tests", ["tests/samples/flash-sale/run", "--locks", "none", "leasehold"]),
    # Both kinds of instances in one queue, as processes; needs what the stage before has built.
    Stage("java-upgrade", "check", ["tests/samples/java/run", "upgrade"]),
    # Installed, and used by projects that know only the coordinates.
    Stage("java-fresh", "check", ["tests/fresh/java.py"]),
    Stage("conformance", "tests", ["tests/conformance/play", "--version", "3.7"]),
    # Optimised builds of their own: seeds and states by the thousand, and faults planted in a copy.
    Stage("simulation", "check", ["cargo", "run", "--profile", "sim", "-p", "leasehold-sim", "--", "--seeds", "4000"]),
    Stage("search", "check", ["cargo", "run", "--profile", "sim", "-p", "leasehold-sim", "--", "--search", "120000"]),
    Stage("teeth", "check", ["tests/sim/teeth.py", "--quick"]),
]


def run(stage: Stage, log: Path) -> int:
    """Runs a stage in a process group of its own, so that nothing of it outlives it. Returns its exit code."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            env={**os.environ, "CARGO_TERM_COLOR": "never", **stage.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped: longer than {LIMIT_SECONDS} s\n".encode())
            return 124
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def judge(stage: Stage, exit_code: int, output: str) -> counts.Counts:
    """What a stage adds to the summary."""
    if stage.kind == "check":
        return counts.Counts(passed=int(exit_code == 0), failed=int(exit_code != 0))
    found = counts.read(output)
    # A runner that counted nothing, or that failed without a failed test (it did not build, it crashed), has failed.
    if found.total == 0 or (exit_code != 0 and found.failed == 0):
        found.failed += 1
    return found


def show_failure(log: Path, output: str, exit_code: int) -> None:
    """What one wants to see at once; the rest is in the log."""
    print(f"--- {log.relative_to(ROOT)}, exit code {exit_code}")
    for line in counts.failures(output):
        print(line)
    print(f"--- its last {SHOWN_LINES} lines")
    print("\n".join(output.splitlines()[-SHOWN_LINES:]))
    print("---", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PREFIX", default="", help="only the stages whose name starts so")
    parser.add_argument("--list", action="store_true", help="list the stages and end")
    options = parser.parse_args()
    stages = [stage for stage in STAGES if stage.name.startswith(options.only)]
    if options.list:
        for stage in stages:
            print(f"{stage.name:<14} {' '.join(stage.command)}")
        return 0
    if not stages:
        parser.error(f"no stage starts with {options.only!r}; --list shows them")

    LOGS.mkdir(parents=True, exist_ok=True)
    total = counts.Counts()
    started = time.monotonic()
    for stage in stages:
        print(f"{stage.name:<14} ", end="", flush=True)
        log = LOGS / f"{stage.name}.log"
        begun = time.monotonic()
        try:
            exit_code = run(stage, log)
        except OSError as error:
            log.write_text(f"{stage.command[0]}: {error}\n")
            exit_code = 127
        output = log.read_text(errors="replace")
        found = judge(stage, exit_code, output)
        total.add(found)
        print(f"{time.monotonic() - begun:6.0f} s  {found}", flush=True)
        if found.failed:
            show_failure(log, output, exit_code)
    for reason in total.reasons:
        print(f"skipped: {reason}")
    print(f"{time.monotonic() - started:.0f} s; logs in {LOGS.relative_to(ROOT)}")
    (LOGS / "summary.txt").write_text(f"{total}\n")
    print(total, flush=True)
    return 0 if total.failed == 0 else 1


def interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

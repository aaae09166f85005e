#!/usr/bin/env python3
"""Plays what a newcomer does on bare machines: throw-away Debian roots, as root and as a plain user without sudo.

A root has make and what README.md names, Rust and Go, as people install them by hand, and nothing else; what the project says is
missing is installed as it says. Packages are used where nothing is built. Needs root, mmdebstrap and overlayfs; the
roots stay under .cache/fresh, so that only the first run fetches them. Everything else is mounted in namespaces that end with
their commands, and removed. Ends with 0 only if nothing failed; its last line counts.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bare import roots
from bare.checks import CHECKS, Check
from bare.machine import USERS, Failure, Skip, hand_installed
from bare.visit import Visit

TARGET = Path(
    subprocess.run([roots.ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip()
)
LOGS = TARGET / "fresh-logs"
WORK = TARGET / "fresh"
# With much beside it, `make demo` was seen to take half an hour, which is a few minutes else.
LIMIT_MINUTES = 60
REMOVAL_SECONDS = 60
# Of a failed check; its log has the rest.
SHOWN_LINES = 40
# A built machine, the two above it, and their packages.
WANTED_BYTES = 8 << 30


def options() -> argparse.Namespace:
    listed = "\n".join(f"  {each.name:<18} {each.about}" for each in CHECKS)
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"checks:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root",
        metavar="NAMES",
        type=names("root", roots.SUITES),
        default=roots.SUITES,
        help=f"of {', '.join(roots.SUITES)}; all",
    )
    parser.add_argument(
        "--user",
        metavar="NAMES",
        type=names("user", list(USERS)),
        default=list(USERS),
        help=f"of {', '.join(USERS)}; both",
    )
    known = [each.name for each in CHECKS]
    parser.add_argument(
        "--only", metavar="CHECKS", type=names("check", known), default=known, help="some of the checks below; all"
    )
    parser.add_argument(
        "--limit",
        metavar="MINUTES",
        type=float,
        default=LIMIT_MINUTES,
        help=f"for each check, {LIMIT_MINUTES} unless given",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the machines in which something is built, for the next --keep, which brings the checkout as it is then",
    )
    parser.add_argument("--list", action="store_true", help="say what would be played, and end")
    return parser.parse_args()


def is_chosen(each: Check, chosen: argparse.Namespace, suite: str, user: str) -> bool:
    return each.name in chosen.only and user in each.users and (suite == chosen.root[-1] or not each.is_played_once)


def names(kind: str, known: list[str]):
    def parse(text: str) -> list[str]:
        wanted = [word for word in text.split(",") if word]
        if not wanted or not set(wanted) <= set(known):
            raise argparse.ArgumentTypeError(f"a {kind} is one of {', '.join(known)}")
        return [name for name in known if name in wanted]

    return parse


def unusable() -> str:
    """Why this machine cannot play, and what to do about it; nothing if it can."""
    if os.geteuid() != 0:
        return "roots are made and entered as root: run `sudo make fresh`"
    # The machines get the Rust, the Go and the Node of this one.
    if subprocess.run([roots.ROOT / "scripts/setup.sh", "fresh"], check=False).returncode != 0:
        return "what it needs is missing; see above"
    if (free := shutil.disk_usage(TARGET).free) < WANTED_BYTES:
        return f"{free >> 30} GiB are free below {TARGET}, {WANTED_BYTES >> 30} are needed"
    return ""


def main() -> int:
    chosen = options()
    # From new to old: what is packed on the newest has to run on all.
    plan = [
        (suite, user, each)
        for suite in reversed(chosen.root)
        for user in chosen.user
        for each in CHECKS
        if is_chosen(each, chosen, suite, user)
    ]
    if chosen.list:
        for suite, user, each in plan:
            print(f"{suite:<9} {user:<6} {each.name:<18} {each.about}")
        return 0
    if not plan:
        print(f"fresh: no such check is played as {', '.join(chosen.user)}; --list shows them", file=sys.stderr)
        return 2
    TARGET.mkdir(parents=True, exist_ok=True)
    if why := unusable():
        print(f"fresh: {why}", file=sys.stderr)
        return 2
    lock = (TARGET / "fresh.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"fresh: another run is going on below {TARGET}", file=sys.stderr)
        return 2
    remove(LOGS)
    LOGS.mkdir()
    if not chosen.keep:
        remove(WORK)
    WORK.mkdir(exist_ok=True)
    try:
        return Play(chosen).play(plan)
    except roots.Unusable as why:
        print(f"fresh: {why}", file=sys.stderr)
        return 1
    finally:
        if not chosen.keep:
            remove(WORK)


def remove(directory: Path) -> None:
    """Removes it; what was killed in there a moment ago may still be ending."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=time.monotonic() < deadline)


class Play:
    """One run, and what was found."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.limit, self.is_kept = chosen.limit * 60, chosen.keep
        self.rows: list[tuple[str, str, str, str, float, str]] = []

    def play(self, plan: list[tuple[str, str, Check]]) -> int:
        begun = time.monotonic()
        for suite in dict.fromkeys(suite for suite, _, _ in plan):
            self.say(f"{suite:<9} root")
            took = time.monotonic()
            made = roots.make(suite, LOGS / f"{suite}-root.log")
            print(f"{time.monotonic() - took:6.0f} s  {'made' if made else 'from .cache'}", flush=True)
        for (suite, user), checks in groupby(plan, key=lambda row: row[:2]):
            visit = Visit(suite, user, WORK, LOGS, hand_installed())
            for _, _, each in checks:
                self.one(visit, each)
            visit.tidy(is_over=not self.is_kept)
        return self.close(time.monotonic() - begun)

    def one(self, visit: Visit, each: Check) -> None:
        suite, user = visit.suite, visit.user
        self.say(f"{suite:<9} {user:<6} {each.name}")
        begun = time.monotonic()
        visit.deadline = begun + self.limit
        visit.notes = []
        result, why, log = "passed", "", None
        try:
            each.play(visit)
        except Skip as reason:
            result, why = "skipped", str(reason)
        except Failure as reason:
            result, why, log = "failed", str(reason), reason.log
        except (OSError, subprocess.SubprocessError) as reason:
            result, why = "failed", f"the check itself could not go on: {reason}"
        visit.tidy()
        took = time.monotonic() - begun
        note = "; ".join(visit.notes) if result == "passed" else why.splitlines()[0]
        self.rows.append((suite, user, each.name, result, took, note))
        print(f"{took:6.0f} s  {result}{f': {note}' if note else ''}", flush=True)
        for line in why.splitlines()[1:][-SHOWN_LINES:]:
            print(line)
        if log:
            print(f"    (all of it: {log})", flush=True)

    def close(self, took: float) -> int:
        count = {result: sum(row[3] == result for row in self.rows) for result in ("passed", "failed", "skipped")}
        print(f"\n{'root':<9} {'user':<6} {'check':<18} {'result':<8} {'time':>7}")
        for suite, user, name, result, seconds, note in self.rows:
            print(f"{suite:<9} {user:<6} {name:<18} {result:<8} {seconds:5.0f} s  {note}")
        print(f"{took:.0f} s; logs in {LOGS}")
        print(", ".join(f"{number} {result}" for result, number in count.items()), flush=True)
        return 1 if count["failed"] else 0

    @staticmethod
    def say(what: str) -> None:
        print(f"{what:<36}", end="", flush=True)


def interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # Also where whoever started this has it ignore Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted; what was mounted or started is gone", file=sys.stderr)
        sys.exit(130)

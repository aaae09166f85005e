#!/usr/bin/env python3
"""Builds the tests of the Cargo workspace as `cargo test` does, and runs several of its test programs at a time.

Most of their time they wait: for a TTL, an election, a deadline. `cargo test` runs one program after the other. What cargo built
is asked of its messages, which tests there are of each program's `--list`, and whether they passed of its exit status; what it
printed is only read to name the tests of a program that failed, and for lines `SKIPPED <what>: <why>`, which are ours.

    cargo_tests.py [-- <packages, features>…]     builds and runs
    cargo_tests.py --build FILE [-- …]            builds, and notes in FILE what there is to run
    cargo_tests.py --built FILE                   runs that
    cargo_tests.py --doc [-- …]                   runs the examples in the documentation

Without packages it is the whole workspace. The report for machines goes where counts.py says.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import counts

ROOT = Path(__file__).resolve().parent.parent
# Printed by a test that could not run, wholly or in part.
SKIPPED = re.compile(r"^SKIPPED (\S.*?): (\S.*)$")
# `--show-output` shows under such a line what a test printed.
OUTPUT_OF = re.compile(r"^---- (\S.*) stdout ----$")
IGNORED = re.compile(r"^test (\S+)(?: - .*)? \.\.\. ignored(?:, (.*))?$", re.MULTILINE)
OK = re.compile(r"^test (\S.*?)(?: - should panic)? \.\.\. ok$", re.MULTILINE)
FAILED = re.compile(r"^test (\S.*?)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
# With the operations that fail, panic or never answer: some tests of the bridge are there only with them, and the packages of
# other languages bring them anyway when all is built.
WORKSPACE = ["--workspace", "--features", "leasehold-bridge/testing"]
# After the output of the tests that passed.
FAILURES = "\nfailures:\n\n"
# How a test program ends of which a test failed; whatever else but 0 is a crash.
TESTS_FAILED = 101


@dataclass
class Program:
    """A test program that cargo has built."""

    name: str
    path: str
    folder: Path


def build(cargo: list[str]) -> list[Program]:
    """Builds the test programs; ends the run if that fails."""
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics", *cargo]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    programs = []
    for message in map(json.loads, done.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            name = f"{folder.relative_to(ROOT)} {message['target']['kind'][0]} {message['target']['name']}"
            programs.append(Program(name, message["executable"], folder))
    return sorted(programs, key=lambda program: program.name)


def listed(program: Program, *which: str) -> set[str]:
    """The names of the tests in a program."""
    command = [program.path, "--list", "--format", "terse", *which]
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=True)
    return {line.removesuffix(": test") for line in done.stdout.splitlines() if line.endswith(": test")}


def run(program: Program) -> tuple[counts.Counts, str]:
    """Runs one program; returns what it counts, and what it printed."""
    begun = time.monotonic()
    try:
        tests, ignored = listed(program), listed(program, "--ignored")
        if not tests:
            return counts.Counts(), ""
        done = subprocess.run(
            [program.path, "--show-output"], cwd=program.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        # The other programs go on.
        return counts.Counts(failed=1, failures=[f"{program.name} cannot be run"]), f"\n=== {program.name}: {error}\n"
    found = judge(program.name, tests - ignored, ignored, done.returncode, done.stdout)
    return found, f"\n=== {program.name}: {time.monotonic() - begun:.1f} s, {found}\n{done.stdout}"


def judge(name: str, tests: set[str], ignored: set[str], status: int, output: str) -> counts.Counts:
    """What a program counts that has these tests, ended so and printed this."""
    failed = set()
    if status == TESTS_FAILED:
        failed = tests.intersection(FAILED.findall(output)) or {"some test that it does not name"}
    passed = tests - failed
    if status not in (0, TESTS_FAILED):
        # Which test it was that ended it, it does not say.
        failed, passed = {f"crashed with {status}"}, tests.intersection(OK.findall(output))
    skips = {test: [f"{test}: {why}"] for test, why in read_ignored(output, ignored).items()}
    for test, what in read_skips(output):
        if test in passed:
            skips.setdefault(test, []).append(f"{test}: {what}")
    passed -= skips.keys()
    return counts.Counts(
        len(passed), len(failed), len(skips),
        [f"{name} {test}" for test in sorted(failed)],
        [f"{name} {skip}" for told in skips.values() for skip in told],
    )  # fmt: skip


def read_ignored(output: str, ignored: set[str]) -> dict[str, str]:
    """Why these tests were ignored, by what `#[ignore = "…"]` says."""
    said = dict(IGNORED.findall(output))
    return {test: said.get(test) or "no reason given" for test in sorted(ignored)}


def read_skips(output: str) -> list[tuple[str, str]]:
    """The tests that found out by themselves that they, or a part of them, cannot run, and why."""
    skips, test = [], ""
    for line in output.splitlines():
        if output_of := OUTPUT_OF.match(line):
            test = output_of[1]
        elif skip := SKIPPED.match(line):
            skips.append((test, f"{skip[1]}: {skip[2]}"))
    return skips


def run_doc_tests(cargo: list[str]) -> counts.Counts:
    """Runs the examples in the documentation, which cargo alone can build."""
    command = ["cargo", "test", "--doc", "--no-fail-fast", *cargo]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, flush=True)
    # There is nothing else that says how many there were: `--list` builds them all a second time.
    passed, failed, ignored = OK.findall(done.stdout), FAILED.findall(done.stdout), IGNORED.findall(done.stdout)
    if done.returncode != 0 and not failed:
        failed = [f"the examples in the documentation ended with {done.returncode}"]
    skips = [f"{test}: {why or 'no reason given'}" for test, why in ignored]
    return counts.Counts(len(passed), len(failed), len(skips), failed, skips)


def run_all(programs: list[Program], jobs: int) -> counts.Counts:
    """Runs the programs; shows of each what it printed when it has ended, and last, once more, how those failed that did."""
    total, failures = counts.Counts(), ""
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run, program) for program in programs]):
            found, output = done.result()
            total.add(found)
            print(output, end="", flush=True)
            if found.failed:
                # Whoever crashed has no such part.
                failures += output[max(output.find(FAILURES), 0) :]
    print(failures, end="")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="so many test programs at a time (default 2)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--build", type=Path, metavar="FILE", help="only build, and note in this file what there is to run")
    which.add_argument("--built", type=Path, metavar="FILE", help="run what is noted in this file")
    which.add_argument("--doc", action="store_true", help="run the examples in the documentation")
    parser.add_argument("cargo", nargs="*", help="for cargo: packages, features")
    options = parser.parse_args()
    cargo = options.cargo or WORKSPACE
    if options.build:
        options.build.parent.mkdir(parents=True, exist_ok=True)
        options.build.write_text(json.dumps([[program.name, program.path, str(program.folder)] for program in build(cargo)]))
        return 0
    if options.doc:
        total = run_doc_tests(cargo)
    elif options.built:
        noted = json.loads(options.built.read_text())
        total = run_all([Program(name, path, Path(folder)) for name, path, folder in noted], options.jobs)
    else:
        total = run_all(build(cargo), options.jobs)
    for failure in total.failures:
        print(f"FAILED {failure}")
    print(total)
    counts.write(total)
    return 1 if total.failed or not total.total else 0


if __name__ == "__main__":
    os.environ["CARGO_TERM_COLOR"] = "never"
    sys.exit(main())

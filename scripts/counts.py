"""Reads how many tests passed, failed and were skipped from what a test runner printed.

Every runner says it in closing lines of its own; this is the one place that knows them all.
A test that finds out by itself that it, or a part of it, cannot run prints a line `SKIPPED <what>: <why>`.
"""

import re
from dataclasses import dataclass, field


@dataclass
class Counts:
    """How many tests passed, failed and were skipped, and why they were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped

    def add(self, other: "Counts") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


# `cargo test`, once for each test binary and once for each package's documentation.
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
# `#[ignore = "why"]`.
CARGO_IGNORED = re.compile(r"^test (\S+)(?: - .*)? \.\.\. ignored(?:, (.*))?$", re.MULTILINE)
# Our own runners: conformance, and whatever comes later.
OURS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
# Printed by a test that could not run, wholly or in part.
SKIPPED = re.compile(r"^SKIPPED (\S.*?): (\S.*)$", re.IGNORECASE)
# `cargo test -- --show-output` shows under such a line what a test printed that passed.
OUTPUT_OF = re.compile(r"^---- (\S.*) stdout ----$")
# Python's unittest: the total, then the failures and skips among them.
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)
# Maven's surefire: a line for each class, with a time, and one for each module without.
SUREFIRE = re.compile(r"^\[\w+\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", re.MULTILINE)
# How much is shown of what a failed test printed; the log has all of it.
LINES_OF_A_FAILURE = 20
# The lines that name a failed test, for those who look at a failed stage.
FAILED = re.compile(r"^(?:test \S.* \.\.\. FAILED|FAILED [^(\s].*|(?:FAIL|ERROR): \S.*|\[ERROR\] \S+\.\S+ -- Time elapsed: .*)$", re.MULTILINE)


def failures(text: str) -> list[str]:
    """The lines of `text` that name a failed test, then the start of what each failed test of `cargo test` printed."""
    shown, printed, room = FAILED.findall(text), False, 0
    for line in text.splitlines():
        if line in ("successes:", "failures:") or line.startswith("test result: "):
            printed, room = line == "failures:", 0
        elif printed and OUTPUT_OF.match(line):
            room = LINES_OF_A_FAILURE
        if room > 0:
            shown.append(line)
            room -= 1
    return shown


def read(text: str) -> Counts:
    """Adds up every closing line in `text`."""
    counts = Counts()
    for passed, failed, ignored in CARGO.findall(text):
        counts.add(Counts(int(passed), int(failed), int(ignored)))
    counts.reasons += [f"{name}: {why or 'no reason given'}" for name, why in CARGO_IGNORED.findall(text)]
    for passed, failed, skipped in OURS.findall(text):
        counts.add(Counts(int(passed), int(failed), int(skipped)))
    read_skips(text, counts)
    for ran, details in UNITTEST.findall(text):
        told = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", details)}
        failed = told.get("failures", 0) + told.get("errors", 0)
        skipped = told.get("skipped", 0)
        counts.add(Counts(int(ran) - failed - skipped, failed, skipped))
    for ran, failures, errors, skipped in SUREFIRE.findall(text):
        failed = int(failures) + int(errors)
        counts.add(Counts(int(ran) - failed - int(skipped), failed, int(skipped)))
    return counts


def read_skips(text: str, counts: Counts) -> None:
    """Collects why tests were skipped, and takes back that cargo counted them as passed."""
    # The test whose output this is, if it passed; a failed one stays failed, whatever it skipped.
    test, passed, already = None, True, False
    for line in text.splitlines():
        if line in ("successes:", "failures:"):
            test, passed = None, line == "successes:"
        elif line.startswith("test result: "):
            test, passed = None, True
        elif output_of := OUTPUT_OF.match(line):
            test, already = output_of.group(1), False
        elif skip := SKIPPED.match(line):
            where = f"{test}: " if test else ""
            counts.reasons.append(f"{where}{skip.group(1)}: {skip.group(2)}")
            if test and passed and not already:
                counts.passed -= 1
                counts.skipped += 1
                already = True

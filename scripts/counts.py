"""Reads how many tests passed, failed and were skipped from what a test runner printed.

Every runner says it in closing lines of its own; this is the one place that knows them all.
A test that finds out by itself that it cannot run prints a line `SKIPPED <what>: <why>`.
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
# A test of `cargo test` that could not run: cargo counts it as passed, we do not.
SKIPPED = re.compile(r"^SKIPPED (\S.*?): (\S.*)$", re.MULTILINE)
# Python's unittest: the total, then the failures and skips among them.
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)
# The lines that name a failed test, for those who look at a failed stage.
FAILED = re.compile(r"^(?:test \S.* \.\.\. FAILED|FAILED [^(\s].*|(?:FAIL|ERROR): \S.*)$", re.MULTILINE)


def failures(text: str) -> list[str]:
    """The lines of `text` that name a failed test."""
    return FAILED.findall(text)


def read(text: str) -> Counts:
    """Adds up every closing line in `text`."""
    counts = Counts()
    in_cargo = False
    for passed, failed, ignored in CARGO.findall(text):
        in_cargo = True
        counts.add(Counts(int(passed), int(failed), int(ignored)))
    counts.reasons += [f"{name}: {why or 'no reason given'}" for name, why in CARGO_IGNORED.findall(text)]
    for passed, failed, skipped in OURS.findall(text):
        counts.add(Counts(int(passed), int(failed), int(skipped)))
    skips = [f"{what}: {why}" for what, why in SKIPPED.findall(text)]
    counts.reasons += skips
    if in_cargo:
        counts.passed -= len(skips)
        counts.skipped += len(skips)
    for ran, details in UNITTEST.findall(text):
        told = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", details)}
        failed = told.get("failures", 0) + told.get("errors", 0)
        skipped = told.get("skipped", 0)
        counts.add(Counts(int(ran) - failed - skipped, failed, skipped))
    return counts

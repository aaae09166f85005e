"""How many tests of a stage passed, failed and were skipped, from the report that its runner wrote for machines.

There are two kinds of reports, and nothing is read from what a runner prints for people:

- our own runners write JSON into the file that LEASEHOLD_REPORT names: `{"passed": …, "failed": …, "skipped": …,
  "failures": ["<test>"], "skips": ["<test>: <why>"]}`; `write` does that for those in Python;
- pytest and Maven's surefire write JUnit's XML.
"""

import json
import os
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Where a runner of ours puts its report, if somebody wants one.
PLACE = "LEASEHOLD_REPORT"


@dataclass
class Counts:
    """How many tests passed, failed and were skipped, which failed, and why some were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped

    def add(self, other: "Counts") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def write(counts: Counts) -> None:
    """Writes the report of a runner of ours, if one is wanted."""
    if place := os.environ.get(PLACE):
        Path(place).write_text(json.dumps(asdict(counts)))


def read(report: Path) -> Counts:
    """Reads one report; its name says of which kind it is. Raises ValueError if it is none."""
    try:
        return read_junit(report) if report.suffix == ".xml" else Counts(**json.loads(report.read_text()))
    except (ElementTree.ParseError, TypeError, ValueError) as error:
        raise ValueError(f"{report.name} is no report: {error}") from error


def read_junit(report: Path) -> Counts:
    """Reads JUnit's XML: one element for each test, with children that say what went wrong."""
    counts = Counts()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed += 1
            counts.failures.append(name)
        elif skipped is not None:
            counts.skipped += 1
            counts.skips.append(f"{name}: {skipped.get('message') or 'no reason given'}")
        else:
            counts.passed += 1
    return counts

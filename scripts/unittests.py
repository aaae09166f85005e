#!/usr/bin/env python3
"""Runs the tests of a Python file, as `python -m unittest -v` does, and reports them for machines, too (counts.py says how).

    unittests.py FILE [TEST…]
"""

import importlib
import sys
import unittest
from pathlib import Path

import counts


class Result(unittest.TextTestResult):
    """Also knows how many passed: `testsRun` counts those that failed in a part or were skipped, too."""

    passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1

    def addExpectedFailure(self, test: unittest.TestCase, error: object) -> None:
        super().addExpectedFailure(test, error)
        self.passed += 1


def count(result: Result) -> counts.Counts:
    """What a result says. A test that failed in several of its parts has failed once."""
    failed = [getattr(test, "test_case", test) for test, _ in [*result.failures, *result.errors]] + result.unexpectedSuccesses
    failures = list(dict.fromkeys(map(str, failed)))
    skips = [f"{test}: {why}" for test, why in result.skipped]
    return counts.Counts(result.passed, len(failures), len(skips), failures, skips)


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: unittests.py FILE [TEST…]", file=sys.stderr)
        return 2
    sys.stdout.reconfigure(line_buffering=True)
    path = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    arguments = [path.name, *sys.argv[2:]]
    result = unittest.main(importlib.import_module(path.stem), argv=arguments, exit=False, testRunner=runner).result
    counts.write(count(result))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

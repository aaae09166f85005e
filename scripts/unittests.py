"""Runs the tests of a Python file, as `unittest.main()` does, and reports them for machines, too (counts.py says how)."""

import sys
import unittest

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


def main() -> None:
    """Runs the tests of the program that calls this, and ends it."""
    sys.stdout.reconfigure(line_buffering=True)
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    result = unittest.main(argv=sys.argv, exit=False, testRunner=runner).result
    counts.write(count(result))
    sys.exit(0 if result.wasSuccessful() else 1)

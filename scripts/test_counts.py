"""The summary must not lie: what each runner prints, and what we count from it."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import counts  # noqa: E402
import test as runner  # noqa: E402


class ReadsClosingLines(unittest.TestCase):
    def test_cargo_adds_up_every_binary(self):
        text = (
            "test a ... ok\n"
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
        )
        self.assertEqual(str(counts.read(text)), "4 passed, 2 failed, 0 skipped")

    def test_an_ignored_test_is_skipped_with_its_reason(self):
        text = (
            "test slow ... ignored, takes an hour\n"
            "test src/lib.rs - Client (line 3) ... ignored\n"
            "test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
        )
        read = counts.read(text)
        self.assertEqual(str(read), "0 passed, 0 failed, 2 skipped")
        self.assertEqual(read.reasons, ["slow: takes an hour", "src/lib.rs: no reason given"])

    def test_a_test_that_skips_itself_does_not_count_as_passed(self):
        text = (
            "test a ... ok\ntest b ... ok\n\nsuccesses:\n\n"
            "---- a stdout ----\nsome words\nSKIPPED etcd 3.4: it is not here\nSKIPPED etcd 3.5: there is no Go\n\n"
            "---- b stdout ----\nsome words\n\nsuccesses:\n    a\n    b\n\n"
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
        )
        read = counts.read(text)
        self.assertEqual(str(read), "1 passed, 0 failed, 1 skipped")
        self.assertEqual(read.reasons, ["a: etcd 3.4: it is not here", "a: etcd 3.5: there is no Go"])

    def test_a_failed_test_stays_failed_whatever_it_skipped(self):
        text = (
            "failures:\n\n---- a stdout ----\nSKIPPED etcd 3.4: it is not here\nassertion failed\n\nfailures:\n    a\n\n"
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
        )
        self.assertEqual(str(counts.read(text)), "3 passed, 1 failed, 0 skipped")

    def test_our_own_runners_count_their_skips_themselves(self):
        text = "SKIPPED fork (java): not built\n5 passed, 1 failed, 1 skipped\n"
        read = counts.read(text)
        self.assertEqual(str(read), "5 passed, 1 failed, 1 skipped")
        self.assertEqual(read.reasons, ["fork (java): not built"])

    def test_unittest_total_is_split(self):
        self.assertEqual(str(counts.read("Ran 4 tests in 0.001s\n\nOK\n")), "4 passed, 0 failed, 0 skipped")
        text = "Ran 6 tests in 0.001s\n\nFAILED (failures=1, errors=2, skipped=1)\n"
        self.assertEqual(str(counts.read(text)), "2 passed, 3 failed, 1 skipped")

    def test_surefire_counts_modules_and_not_their_classes_again(self):
        text = (
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 1.2 s -- in a.B\n"
            "[WARNING] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1\n"
            "[ERROR] a.C.fails -- Time elapsed: 0.1 s <<< FAILURE!\n"
            "[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 0\n"
        )
        self.assertEqual(str(counts.read(text)), "4 passed, 2 failed, 1 skipped")
        self.assertEqual(counts.failures(text), ["[ERROR] a.C.fails -- Time elapsed: 0.1 s <<< FAILURE!"])

    def test_failed_tests_are_named(self):
        text = "test a ... ok\ntest b::c ... FAILED\nFAIL: test_x (m.C)\nFAILED fork (java): no answer\nFAILED (errors=1)\n"
        self.assertEqual(
            counts.failures(text), ["test b::c ... FAILED", "FAIL: test_x (m.C)", "FAILED fork (java): no answer"]
        )

    def test_what_a_failed_test_printed_is_shown(self):
        text = (
            "test a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\nfine\n\nfailures:\n\n"
            "---- b stdout ----\nnot fine\n\nfailures:\n    b\n\n"
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"
        )
        self.assertEqual(counts.failures(text), ["test b ... FAILED", "---- b stdout ----", "not fine", ""])


class JudgesStages(unittest.TestCase):
    def judge(self, kind, exit_code, output):
        return str(runner.judge(runner.Stage("x", kind, []), exit_code, output))

    def test_a_check_counts_as_one(self):
        self.assertEqual(self.judge("check", 0, "anything"), "1 passed, 0 failed, 0 skipped")
        self.assertEqual(self.judge("check", 1, "anything"), "0 passed, 1 failed, 0 skipped")

    def test_tests_that_ran_nothing_are_a_failure(self):
        self.assertEqual(self.judge("tests", 0, "nothing"), "0 passed, 1 failed, 0 skipped")

    def test_a_bad_exit_without_a_failed_test_is_a_failure(self):
        self.assertEqual(self.judge("tests", 101, "3 passed, 0 failed, 0 skipped\n"), "3 passed, 1 failed, 0 skipped")

    def test_a_failure_counted_by_the_runner_is_not_counted_twice(self):
        self.assertEqual(self.judge("tests", 101, "3 passed, 2 failed, 0 skipped\n"), "3 passed, 2 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()

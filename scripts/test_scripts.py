"""The summary must not lie, and nothing may outlive it: what is counted from each kind of report, and how stages are run."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))
import book  # noqa: E402
import cargo_tests  # noqa: E402
import counts  # noqa: E402
import pulse  # noqa: E402
import stages  # noqa: E402
import test as runner  # noqa: E402
import unittests  # noqa: E402
from stages import Stage  # noqa: E402


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


class MakesTheBook(InFolder):
    """All but what mdBook does, which `make docs` builds and asks."""

    def test_what_is_listed_is_there_once(self):
        _, pages = book.contents((stages.ROOT / book.CONTENTS).read_text())
        self.assertEqual(len(pages), len(set(pages)))
        self.assertEqual([page for page in pages if not (stages.ROOT / page).is_file()], [])

    def test_pages_come_with_what_they_link_to_and_keep_their_links(self):
        (self.folder / "docs").mkdir()
        self.write("docs/SUMMARY.md", "- [a](a.md)\n- [read](../README.md)\n")
        self.write("docs/a.md", '[t](../test.rs#f) [o](../odd.md) [w](https://etcd.io) [h](#h) <source srcset="p.svg">')
        for name in ("README.md", "odd.md", "docs/p.svg", "never.md", "test.rs"):
            self.write(name, name)
        self.write("docs/late.md", "# Late\ntext")
        place = self.folder / "src"
        place.mkdir()
        self.assertEqual(book.gather(self.folder, place), ["docs/a.md", "README.md", "docs/late.md"])
        self.assertEqual((place / "SUMMARY.md").read_text(), "- [a](docs/a.md)\n- [read](README.md)\n- [Late](docs/late.md)\n")
        found = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
        self.assertEqual(found, ["README.md", "SUMMARY.md", "docs/a.md", "docs/late.md", "docs/p.svg", "odd.md.txt", "test.rs"])

    def test_dead_links_are_found(self):
        self.write("a.html", '<h2 id="one"></h2><a href="b.html#two"></a><a href="#one"></a><a href="x.rs"></a><a href="https://x.y/"></a>')
        self.write("b.html", '<h2 id="two"></h2><a href="a.html#nothing"></a><img src="p.svg">')
        self.write("x.rs", "")
        found = book.dead(self.folder, ["a.md", "b.md"])
        self.assertEqual([line.split(": ")[:2] for line in found], [["b.md", "a.html#nothing"], ["b.md", "p.svg"]])


class ReadsReports(InFolder):
    def test_what_our_runners_write_is_read_again(self):
        written = counts.Counts(3, 1, 1, ["fork (java)"], ["tls: no certificate"])
        with mock.patch.dict(os.environ, {counts.PLACE: str(self.folder / "report.json")}):
            counts.write(written)
        self.assertEqual(counts.read(self.folder / "report.json"), written)

    def test_junit_counts_each_test_once(self):
        report = self.write(
            "TEST-a.xml",
            '<testsuites tests="9"><testsuite tests="4" failures="1" errors="1" skipped="1">'
            '<testcase classname="a.B" name="fine" time="1"><system-out>failure</system-out></testcase>'
            '<testcase classname="a.B" name="wrong"><failure message="x">y</failure></testcase>'
            '<testcase classname="a.B" name="broken"><error message="x">y</error></testcase>'
            '<testcase classname="a.B" name="left out"><skipped message="no IPv6"/></testcase>'
            "</testsuite></testsuites>",
        )
        read = counts.read(report)
        self.assertEqual(str(read), "1 passed, 2 failed, 1 skipped")
        self.assertEqual(read.failures, ["a.B.wrong", "a.B.broken"])
        self.assertEqual(read.skips, ["a.B.left out: no IPv6"])

    def test_what_is_no_report_is_an_error(self):
        for name, text in (("a.xml", "<testsuite"), ("a.json", "3 passed"), ("a.json", '{"passes": 3}'), ("a.json", "[]")):
            with self.assertRaises(ValueError):
                counts.read(self.write(name, text))


class CountsUnittests(unittest.TestCase):
    def test_each_test_counts_once(self):
        class Some(unittest.TestCase):
            def test_passes(self):
                pass

            def test_fails_in_two_parts(self):
                for part in range(2):
                    with self.subTest(part):
                        self.fail()

            def test_breaks(self):
                raise OSError

            @unittest.skip("no compiler")
            def test_is_skipped(self):
                pass

            @unittest.expectedFailure
            def test_passes_although_it_must_not(self):
                pass

        suite = unittest.defaultTestLoader.loadTestsFromTestCase(Some)
        with open(os.devnull, "w") as nowhere:
            result = unittest.TextTestRunner(nowhere, resultclass=unittests.Result).run(suite)
        found = unittests.count(result)
        self.assertEqual(str(found), "1 passed, 3 failed, 1 skipped")
        self.assertIn("no compiler", found.skips[0])


class JudgesTestPrograms(unittest.TestCase):
    TESTS = {"a", "b", "c"}

    def judge(self, status, output="", ignored=frozenset()):
        return cargo_tests.judge("core test lock", self.TESTS, set(ignored), status, output)

    def test_a_good_end_says_that_all_have_passed(self):
        self.assertEqual(str(self.judge(0)), "3 passed, 0 failed, 0 skipped")

    def test_failed_tests_are_named(self):
        found = self.judge(101, "test a ... ok\ntest b ... FAILED\ntest c ... ok\n")
        self.assertEqual((str(found), found.failures), ("2 passed, 1 failed, 0 skipped", ["core test lock b"]))

    def test_a_failure_without_a_name_counts_all_the_same(self):
        self.assertEqual(self.judge(101, "nothing").failed, 1)

    def test_a_crash_is_a_failure_and_what_did_not_run_has_not_passed(self):
        found = self.judge(-6, "test a ... ok\n")
        self.assertEqual((str(found), found.failures), ("1 passed, 1 failed, 0 skipped", ["core test lock crashed with -6"]))

    def test_a_program_that_is_gone_is_a_failure(self):
        found, said = cargo_tests.run(cargo_tests.Program("core test lock", "/nowhere/lock", Path("/")))
        self.assertEqual(found.failures, ["core test lock cannot be run"])
        self.assertIn("/nowhere/lock", said)

    def test_what_failed_is_shown_last(self):
        def ended(program):
            if program.name == "bad":
                return counts.Counts(failed=1), "\n=== bad\nsuccesses:\nmuch\n\nfailures:\n\n---- b stdout ----\nwhy\n"
            return counts.Counts(passed=1), f"\n=== {program.name}\n"

        programs = [cargo_tests.Program(name, name, Path("/")) for name in ("bad", "good", "better")]
        with mock.patch.object(cargo_tests, "run", ended), contextlib.redirect_stdout(io.StringIO()) as said:
            cargo_tests.run_all(programs, 1)
        self.assertTrue(said.getvalue().endswith("\nfailures:\n\n---- b stdout ----\nwhy\n"), said.getvalue())
        self.assertNotIn("good", said.getvalue().rpartition("failures:")[2])
        self.assertEqual(said.getvalue().count("=== bad"), 1)

    def test_a_test_that_skips_itself_does_not_count_as_passed(self):
        output = (
            "successes:\n\n---- a stdout ----\nsome words\nSKIPPED etcd 3.4: it is not here\nSKIPPED etcd 3.5: there is no Go\n\n"
            "---- b stdout ----\nsome words\n"
        )
        found = self.judge(0, output)
        self.assertEqual(str(found), "2 passed, 0 failed, 1 skipped")
        self.assertEqual(
            found.skips, ["core test lock a: etcd 3.4: it is not here", "core test lock a: etcd 3.5: there is no Go"]
        )

    def test_a_failed_test_stays_failed_whatever_it_skipped(self):
        found = self.judge(101, "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nSKIPPED etcd 3.4: it is not here\n")
        self.assertEqual(str(found), "2 passed, 1 failed, 0 skipped")

    def test_an_ignored_test_is_skipped_with_its_reason(self):
        found = self.judge(0, "test slow ... ignored, takes an hour\n", {"slow", "odd"})
        self.assertEqual(str(found), "3 passed, 0 failed, 2 skipped")
        self.assertEqual(found.skips, ["core test lock odd: no reason given", "core test lock slow: takes an hour"])


class RunsStages(InFolder):
    """Stages of their own, whose logs and reports lie in a folder of their own."""

    def setUp(self):
        super().setUp()
        before = stages.LOGS
        stages.LOGS = self.folder
        self.addCleanup(setattr, stages, "LOGS", before)

    def stage(self, name, script, **more):
        return Stage(name, ["sh", "-c", script], **more)

    def judge(self, script, **more):
        return str(runner.execute(self.stage("x", script, **more), "mark", 60).found)

    def test_a_check_counts_as_one(self):
        self.assertEqual(self.judge("echo 3 passed, 0 failed"), "1 passed, 0 failed, 0 skipped")
        self.assertEqual(self.judge("exit 3"), "0 passed, 1 failed, 0 skipped")
        no_such = runner.execute(Stage("x", [str(self.folder / "nothing")]), "mark", 60)
        self.assertEqual((no_such.exit_code, no_such.found.failed), (127, 1))

    def report(self, **told):
        return f"echo '{json.dumps(told)}' > $LEASEHOLD_REPORT"

    def test_tests_count_what_they_report(self):
        self.assertEqual(self.judge(self.report(passed=3, skipped=1), is_tests=True), "3 passed, 0 failed, 1 skipped")

    def test_tests_that_ran_nothing_are_a_failure(self):
        self.assertEqual(self.judge("echo 3 passed, 0 failed, 0 skipped", is_tests=True), "0 passed, 1 failed, 0 skipped")
        self.assertEqual(self.judge(self.report(passed=0), is_tests=True), "0 passed, 1 failed, 0 skipped")

    def test_a_bad_exit_without_a_failed_test_is_a_failure(self):
        self.assertEqual(self.judge(self.report(passed=3) + "; exit 101", is_tests=True), "3 passed, 1 failed, 0 skipped")

    def test_a_failure_counted_by_the_runner_is_not_counted_twice(self):
        script = self.report(passed=3, failed=2) + "; exit 1"
        self.assertEqual(self.judge(script, is_tests=True), "3 passed, 2 failed, 0 skipped")

    def test_reports_of_a_former_run_are_not_counted(self):
        self.write("x.json", '{"passed": 7}')
        self.write("TEST-old.xml", '<testsuite><testcase name="a"/></testsuite>')
        junit = [(self.folder, "TEST-*.xml")]
        new = f"echo '<testsuite><testcase name=\"a\"/></testsuite>' > {self.folder}/TEST-new.xml"
        self.assertEqual(self.judge(new, is_tests=True, junit=junit), "1 passed, 0 failed, 0 skipped")

    def test_a_stage_that_hangs_is_ended(self):
        ended = runner.execute(self.stage("x", "sleep 600"), "mark", 0.2)
        # The shell is killed, or learns a moment before that what it waited for was.
        self.assertIn(ended.exit_code, (-signal.SIGKILL, 128 + signal.SIGKILL))
        self.assertEqual(ended.found.failed, 1)

    def test_nothing_outlives_its_stage_and_nothing_else_is_ended(self):
        # Names that start alike, and a process that has moved to a session of its own.
        other = subprocess.Popen(["sleep", "600"], env={**os.environ, runner.MARK: "mark/java-fresh/"})
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        runner.execute(self.stage("java", "setsid sleep 600 & setsid sleep 600 &"), "mark", 60)
        self.assertEqual(runner.processes("mark/java/"), [])
        self.assertIsNone(other.poll())

    def test_an_interrupted_run_ends_all_that_it_has_started(self):
        # As the program does: where this runs in the background, the signal is ignored, and so it would be in the child.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        # A process that does not listen to the first signal, and one that cleans up.
        script = f"trap 'echo clean > {self.folder}/clean; exit' INT; (trap '' INT; sleep 600) & echo > {self.folder}/up; wait; wait"
        child = subprocess.Popen(["sh", "-c", script], env={**os.environ, runner.MARK: "run/x/"}, start_new_session=True)
        deadline = time.monotonic() + 30
        while not (self.folder / "up").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        runner.end_processes("run/", 1)
        child.wait(30)
        self.assertEqual(runner.processes("run/"), [])
        self.assertTrue((self.folder / "clean").exists())


class NotesHoldUps(unittest.TestCase):
    def setUp(self):
        # Without its thread: what it notes is up to the test.
        self.pulse = pulse.Pulse.__new__(pulse.Pulse)
        self.pulse.noted = []

    def test_only_what_is_long_is_noted(self):
        self.pulse.note(10, 10 + pulse.LATE_SECONDS / 2)
        self.assertEqual(self.pulse.longest(0, 20), 0)

    def test_a_hold_up_counts_for_whoever_was_there_for_a_part_of_it(self):
        self.pulse.note(10, 12)
        self.pulse.note(30, 31)
        self.assertEqual([self.pulse.longest(*span) for span in ((0, 9), (0, 11), (11, 20), (13, 20), (0, 40))], [0, 2, 2, 0, 2])

    def test_a_process_that_stands_still_is_noticed(self):
        noticed = pulse.Pulse()
        begun = time.monotonic()
        # A stopped process is to its threads what a machine without processors is.
        subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"]).wait(60)
        deadline = time.monotonic() + 60
        while not noticed.longest(begun, time.monotonic()) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertGreaterEqual(noticed.longest(begun, time.monotonic()), pulse.LATE_SECONDS)


class PlaysAgain(InFolder):
    """Which stages are played again, and what counts then."""

    def setUp(self):
        super().setUp()
        before = stages.LOGS
        stages.LOGS = self.folder
        self.addCleanup(setattr, stages, "LOGS", before)

    def play(self, script, held_up, **more):
        """A stage whose script can count how often it was played; what counts, and what is said."""
        script = f"echo x >> {self.folder}/played; first() {{ [ $(wc -l < {self.folder}/played) = 1 ]; }}; {script}"
        stage = Stage("x", ["sh", "-c", script], **{"is_tests": True, **more})
        run = runner.Run([stage], 60, 1)
        run.pulse = mock.Mock(**{"longest.return_value": held_up})
        said = []
        display = mock.Mock(**{"line.side_effect": said.append})
        runner.play(run, display)
        with mock.patch.object(runner, "LOGS", self.folder):
            runner.summarise(run, mock.Mock(width=1, begun=0, **{"line.side_effect": said.append}))
        return str(run.ended["x"].found), (self.folder / "played").read_text().count("x"), "\n".join(said)

    def told(self, passed, failed):
        failures = [f"test {number}" for number in range(failed)]
        return f"echo '{json.dumps({'passed': passed, 'failed': failed, 'failures': failures})}' > $LEASEHOLD_REPORT"

    def test_after_a_hold_up_it_is_judged_by_itself_and_what_had_failed_is_told(self):
        found, times, said = self.play(f"if first; then {self.told(2, 1)}; exit 1; fi; {self.told(3, 0)}", 1.2)
        self.assertEqual((found, times), ("3 passed, 0 failed, 0 skipped", 2))
        self.assertIn("played again: x, whose 1 failures", said)
        self.assertIn("hold-up of 1.2 s: test 0", said)

    def test_what_fails_by_itself_as_well_has_failed(self):
        found, times, _ = self.play(f"{self.told(2, 1)}; exit 1", 1.2)
        self.assertEqual((found, times), ("2 passed, 1 failed, 0 skipped", 2))

    def test_without_a_hold_up_a_failure_is_a_failure(self):
        found, times, said = self.play(f"if first; then {self.told(2, 1)}; exit 1; fi; {self.told(3, 0)}", 0)
        self.assertEqual((found, times), ("2 passed, 1 failed, 0 skipped", 1))
        self.assertNotIn("again", said)

    def test_many_failures_are_no_accident(self):
        found, times, _ = self.play(f"{self.told(0, runner.MOST_ACCIDENTS + 1)}; exit 1", 1.2)
        self.assertEqual((found, times), (f"0 passed, {runner.MOST_ACCIDENTS + 1} failed, 0 skipped", 1))

    def test_a_check_and_what_passed_are_played_once(self):
        self.assertEqual(self.play("exit 1", 1.2, is_tests=False)[:2], ("0 passed, 1 failed, 0 skipped", 1))
        (self.folder / "played").unlink()
        self.assertEqual(self.play(self.told(1, 0), 1.2)[:2], ("1 passed, 0 failed, 0 skipped", 1))


class ChoosesStages(unittest.TestCase):
    def setUp(self):
        self.build, self.lint = Stage("build", [], alone=["cargo"]), Stage("lint", [], alone=["cargo"])
        self.java, self.fresh = Stage("java", [], needs=["build"], alone=["maven"]), Stage("fresh", [], needs=["java"])
        self.all = [self.build, self.lint, self.java, self.fresh]

    def start(self, run, wanted):
        self.assertEqual(run.ready(), wanted)
        run.begun[wanted.name] = 0

    def end(self, run, stage):
        run.ended[stage.name] = runner.Ended(counts.Counts(failed=1), 1, 0, 0)

    def test_a_stage_waits_for_what_it_needs_and_for_what_another_one_uses(self):
        run = runner.Run(self.all, 60, 2)
        self.start(run, self.build)
        self.assertIsNone(run.ready(), "both use cargo, and the others need what is built")
        self.end(run, self.build)
        # Even what was not built well: each says itself what it lacks.
        self.start(run, self.lint)
        self.start(run, self.java)
        self.end(run, self.java)
        self.start(run, self.fresh)
        self.assertIsNone(run.ready())

    def test_no_more_at_a_time_than_there_are_lanes(self):
        run = runner.Run([Stage("a", []), Stage("b", [])], 60, 1)
        self.start(run, run.chosen[0])
        self.assertIsNone(run.ready())

    def test_what_is_chosen_comes_with_what_it_needs(self):
        self.assertEqual(runner.choose(self.all, ["fresh"]), [self.build, self.java, self.fresh])
        self.assertEqual(runner.choose(self.all, ["li", "bu"]), [self.build, self.lint])
        longer = Stage("lint-node", [])
        self.assertEqual(runner.choose([*self.all, longer], ["lint"]), [self.lint], "a whole name is that stage alone")
        self.assertEqual(runner.choose([*self.all, longer], ["lin"]), [self.lint, longer])
        self.assertEqual(runner.choose(self.all, [""]), self.all)
        self.assertEqual(runner.choose(self.all, ["nothing"]), [])

    def test_the_stages_need_only_stages_that_come_before(self):
        for is_full in (False, True):
            names = []
            for stage in stages.stages(is_full):
                self.assertLessEqual(set(stage.needs), set(names), stage.name)
                self.assertNotIn(stage.name, names)
                names.append(stage.name)


class SharesWhatIsBuilt(unittest.TestCase):
    """Whatever is built in cargo's dev profile stands on the same crates of others: with other features, or with other settings of
    a profile for a single one of them, all that stands on that one is built once more, for minutes."""

    def test_all_that_is_built_stands_on_the_same(self):
        model = next(stage.command for stage in stages.stages(False) if stage.name == "model")
        demo = re.findall(r"-p (leasehold-\w[\w-]*)", self.text("scripts/demo.sh"))
        commands = {
            "tests": ["test", "--no-run", *cargo_tests.WORKSPACE],
            "model": ["test", "--no-run", *model[model.index("--") + 1 :]],
            "demo": ["build", *(word for package in demo for word in ("-p", package))],
            "simulation": self.only(r"^ *cargo (build .*)$", "tests/sim/play").split(),
            # Without the library whose functions it writes, and then with it.
            **{
                f"make gen {number}": command.split()
                for number, command in enumerate(re.findall(r"^\t@cargo (build --quiet --workspace .*)$", self.text("Makefile"), re.MULTILINE))
            },
            "c": re.findall(r'"([^"]+)"', "\"build\", " + self.only(r"call\(\*cargo, (.*--features.*), cwd", "ffi-c/tests/test_c.py")),
        }
        self.assertIn("make gen 0", commands)
        usual = self.crates(self.only(r"^cargo (build .*)$", "scripts/build.sh").split())
        for name, command in commands.items():
            for crate, built in self.crates(command).items():
                with self.subTest(f"{name}: {crate}"):
                    self.assertLessEqual(built, usual.get(crate, built))

    def text(self, path):
        return (stages.ROOT / path).read_text()

    def only(self, pattern, path):
        (found,) = re.findall(pattern, self.text(path), re.MULTILINE)
        return found

    def crates(self, command):
        """How the crates of others would be built: features and settings. Cargo tells only those who ask for what may change.
        On a new machine it downloads them first, as whatever builds them would."""
        command = ["cargo", *command, "--locked", "--unit-graph", "-Z", "unstable-options"]
        environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
        told = subprocess.run(command, cwd=stages.ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        found = {}
        for unit in json.loads(told)["units"]:
            if unit["pkg_id"].startswith("registry"):
                settings = {name: value for name, value in unit["profile"].items() if name != "name"}
                crate = (unit["pkg_id"].split("#")[1], unit["target"]["name"], unit["mode"])
                found.setdefault(crate, set()).add(json.dumps([unit["features"], settings, unit["platform"]]))
        return found

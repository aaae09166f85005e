#!/usr/bin/env python3
"""The set-up on machines that lack things: what it installs, what it says, and what it does without.

Each machine is a directory of programs, most of them stand-ins that only tell their version; nothing else is on the PATH.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What every Debian has, and the scripts use.
BASIC = (
    "awk bash cat comm cp cut dirname echo env flock grep head kill ln ls make mkdir mktemp mv rm sed sh sleep sort tail touch tr true uniq wc xargs"
).split()
# Enough for the core, and for the languages; each is a line of shell.
CORE = {
    "cargo": "exit 0",
    "rustc": "echo rustc 1.99.0",
    "cc": "exit 0",
    "protoc": "exit 0",
    "go": "echo go1.99.1",
    "python3": "echo Python 3.12.1",
}
LANGUAGES = {
    "node": "echo v20.20.2",
    "npm": "exit 0",
    "mvn": "exit 0",
    "java": "echo '    java.home = /nonexistent'",
}
# An apt whose lists know these packages, and that installs the program of each.
APT = {
    "dpkg-deb": "exit 0",
    "apt-cache": """shift $(($# - 2)); case $2 in
base-files) printf '  Candidate: 1\\n 500 http://deb/ x\\n' ;;
nodejs) echo '  Candidate: 18.20.4+dfsg-1' ;;
default-jdk-headless) echo '  Candidate: 2:1.21-76' ;;
python3*) echo '  Candidate: 3.13.5-1' ;;
golang-go) echo '  Candidate: 2:1.24~1' ;;
openjdk-*) echo '  Candidate: (none)' ;;
*) echo '  Candidate: 1.2-3' ;;
esac""",
    "apt-get": """echo "apt-get $*" >>"$MACHINE/apt"; for word; do case $word in
protobuf-compiler) ln -s ../core/protoc "$MACHINE/bin/protoc" ;;
gcc) ln -s ../core/cc "$MACHINE/bin/cc" ;;
esac; done""",
}


class Machine:
    """A machine with these programs, and whoever uses it."""

    def __init__(self, test: unittest.TestCase, *programs: dict[str, str], user: str = "0") -> None:
        self.place = Path(tempfile.mkdtemp(prefix="leasehold-setup-"))
        test.addCleanup(shutil.rmtree, self.place)
        self.bin = self.place / "bin"
        self.bin.mkdir()
        for name in BASIC:
            (self.bin / name).symlink_to(shutil.which(name) or "/nonexistent")
        self.write(self.bin, {"id": f"echo {user}"})
        for each in programs:
            self.write(self.bin, each)
        core = self.place / "core"
        core.mkdir()
        self.write(core, CORE)
        # A checkout of its own: what is unpacked or built there stays there.
        self.root = self.place / "a checkout"
        (self.root / "tools/etcd/servers/3.7").mkdir(parents=True)
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Cargo.toml", "Makefile", "tools/etcd/servers/3.7/go.mod"):
            shutil.copy(ROOT / name, self.root / name)

    @staticmethod
    def write(directory: Path, programs: dict[str, str]) -> None:
        for name, text in programs.items():
            program = directory / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def without(self, *names: str) -> "Machine":
        for name in names:
            (self.bin / name).unlink()
        return self

    def run(self, *command: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            command, cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
            stdin=subprocess.DEVNULL,
            env={"PATH": str(self.bin), "HOME": str(self.place), "MACHINE": str(self.place), **environment},
        )
        return done.returncode, done.stdout

    def set_up(self, target: str, **environment: str) -> tuple[int, str]:
        return self.run("scripts/setup.sh", target, **environment)

    def apt_was_told(self) -> list[str]:
        told = self.place / "apt"
        return [line for line in told.read_text().splitlines() if " install " in line] if told.exists() else []


class SetUp(unittest.TestCase):
    def test_is_quiet_where_nothing_is_missing(self) -> None:
        self.assertEqual(Machine(self, CORE, APT).set_up("sim"), (0, ""))

    def test_root_gets_everything_at_once(self) -> None:
        machine = Machine(self, CORE, APT).without("protoc", "cc")
        code, said = machine.set_up("sim")
        self.assertEqual(code, 0, said)
        (told,) = machine.apt_was_told()
        self.assertIn("gcc libc6-dev protobuf-compiler libprotobuf-dev", told)

    def test_a_plain_user_is_told_one_line(self) -> None:
        machine = Machine(self, CORE, APT, user="1000").without("protoc", "cc")
        code, said = machine.set_up("sim")
        self.assertEqual(code, 1)
        self.assertEqual(machine.apt_was_told(), [])
        lines = [line.strip() for line in said.splitlines() if line.startswith("    ")]
        self.assertEqual(lines, ["sudo apt-get install gcc libc6-dev libprotobuf-dev protobuf-compiler"])
        self.assertIn("there is no sudo", said)

    def test_a_sudo_that_asks_nothing_is_used(self) -> None:
        sudo = {"sudo": 'shift; exec "$@"'}
        machine = Machine(self, CORE, APT, sudo, user="1000").without("protoc")
        code, said = machine.set_up("sim")
        self.assertEqual(code, 0, said)
        self.assertEqual(len(machine.apt_was_told()), 1)

    def test_a_sudo_that_asks_for_a_password_is_not(self) -> None:
        machine = Machine(self, CORE, APT, {"sudo": "exit 1"}, user="1000").without("protoc")
        code, said = machine.set_up("sim")
        self.assertEqual(code, 1)
        self.assertIn("sudo asks for a password", said)
        self.assertEqual(machine.apt_was_told(), [])

    def test_where_nothing_can_be_built_that_is_said_first(self) -> None:
        machine = Machine(self, CORE, APT).without("protoc")
        code, said = machine.set_up("sim", CARGO_TARGET_DIR="/dev/null/target")
        self.assertEqual((code, len(said.splitlines()), machine.apt_was_told()), (1, 1, []), said)
        self.assertIn("/dev/null/target, where cargo builds, cannot be written to", said)

    def test_cargo_is_told_of_a_checkout_that_was_moved(self) -> None:
        machine = Machine(self, CORE, APT)
        source, target = machine.root / "tests/docs/build.rs", machine.root / "target"
        source.parent.mkdir(parents=True)
        source.write_text('let root = env!("CARGO_MANIFEST_DIR");')
        (target / "debug").mkdir(parents=True)
        (target / "checkout").write_text("/where/it/was\n")
        for is_told in (True, False):
            os.utime(source, (0, 0))
            self.assertEqual(machine.set_up("sim"), (0, ""))
            self.assertEqual(source.stat().st_mtime > 0, is_told)

    def test_packages_that_are_too_old_are_not_named(self) -> None:
        # Its apt has Node 18, and a JDK 21 under the name that is not tied to a number.
        machine = Machine(self, CORE, APT, user="1000")
        code, said = machine.set_up("build")
        self.assertEqual(code, 1)
        (line,) = [line for line in said.splitlines() if line.startswith("    ")]
        self.assertIn(" default-jdk-headless ", line)
        self.assertNotIn("nodejs", line)
        self.assertIn("install it (nodejs.org)\n", said)

    def test_what_is_there_but_too_old_is_named(self) -> None:
        machine = Machine(self, CORE, LANGUAGES, {"node": "echo v18.20.4"}, user="1000")
        code, said = machine.set_up("pack")
        self.assertEqual(code, 1)
        self.assertIn("missing   Node 20.11 or newer with npm (here: Node 18.20.4): ", said)

    def test_an_old_go_is_no_way_to_an_etcd(self) -> None:
        machine = Machine(self, CORE, {"go": "echo go1.19.8"})
        code, said = machine.set_up("demo")
        self.assertEqual(code, 1)
        self.assertIn("(here: Go 1.19.8)", said)

    def test_no_apt_no_advice_about_it(self) -> None:
        code, said = Machine(self, CORE).without("protoc").set_up("sim")
        self.assertEqual(code, 1)
        self.assertNotIn("apt", said)

    def test_each_target_asks_for_what_it_uses(self) -> None:
        machine = Machine(self, CORE, {"ar": "", "ld": "", "nm": "", "objcopy": "", "strip": ""})
        for target in ("sim", "search", "install-c", "demo"):
            self.assertEqual(machine.set_up(target)[0], 0, target)
        for target in ("build", "test", "lint", "gen", "sample", "pack"):
            self.assertEqual(machine.set_up(target)[0], 1, target)

    def test_an_unknown_target_is_refused(self) -> None:
        code, said = Machine(self, CORE).set_up("everything")
        self.assertEqual(code, 2)
        self.assertIn("the targets are: demo", said)

    def test_the_doctor_says_which_target_lacks_what_and_installs_nothing(self) -> None:
        machine = Machine(self, CORE, APT).without("protoc")
        code, said = machine.run("make", "--silent", "doctor")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"(?m)^missing   protoc and its include files: .*Debian: protobuf-compiler libprotobuf-dev$")
        self.assertRegex(said, r"(?m)^sim +lacks protoc and its include files$")
        self.assertRegex(said, r"(?m)^fmt +lacks Node")
        self.assertEqual(machine.apt_was_told(), [])
        self.assertFalse((machine.root / ".cache").exists())


class Demo(unittest.TestCase):
    def test_languages_without_tools_are_left_out_in_one_line_each(self) -> None:
        machine = Machine(self, CORE, APT, LANGUAGES, {"node": "echo v18.20.4"}).without("mvn")
        code, said = machine.set_up("demo")
        self.assertEqual(code, 0)
        lines = [line for line in said.splitlines() if line.startswith("demo: without ")]
        self.assertEqual([line.split(",")[0] for line in lines], ["demo: without Node", "demo: without Java"])
        self.assertIn("(here: Node 18.20.4)", lines[0])
        # Nobody asked for a JDK.
        self.assertEqual(machine.apt_was_told(), [])
        self.assertIn("demo: for the others: apt-get install default-jdk-headless maven\n", said)

    def test_a_language_that_cannot_be_built_is_left_out_and_the_demo_goes_on(self) -> None:
        machine = Machine(self, CORE, LANGUAGES)
        jdk = machine.place / "jdk" / "bin"
        jdk.mkdir(parents=True)
        machine.write(jdk, {"java": "exit 0", "javac": "echo javac 21.0.4"})
        for name, text in {
            "ffi-c/Makefile": "contender:\n\t@true\n",
            "bindings-python/build": "#!/bin/sh\nexit 0\n",
            "bindings-node/build": "#!/bin/sh\necho '[ERROR] [ERROR] There are errors:'\necho '[ERROR] npm error network request failed'\necho more\nexit 1\n",
            "scripts/maven.sh": "#!/bin/sh\nexit 0\n",
            "target/debug/leasehold-etcd": "#!/bin/sh\nexit 0\n",
            "target/debug/leasehold-demo": '#!/bin/sh\necho "demo: $*"\n',
        }.items():
            file = machine.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        code, said = machine.run("scripts/demo.sh", "--turns", "3", JAVA_HOME=str(jdk.parent))
        self.assertEqual(code, 0, said)
        lines = [line for line in said.splitlines() if "without" in line]
        self.assertEqual(len(lines), 1, said)
        line = lines[0]
        self.assertIn("without Node, which could not be built: npm error network request failed", line)
        log = re.search(r"\((.*\.log)\)$", line)
        assert log
        self.assertIn("more", (machine.root / log[1]).read_text())
        self.assertTrue(said.endswith("demo: --available rust,c,python,java --turns 3\n"), said)


class Progress(unittest.TestCase):
    def long(self, command: str) -> tuple[int, str]:
        machine = Machine(self)
        script = f". scripts/lib/progress.sh; long 'the work' out/log sh -c '{command}' 2>said; status=$?; cat said; echo \"code $status\""
        return machine.run("bash", "-c", script)

    def test_nothing_is_said_of_what_is_quick(self) -> None:
        self.assertEqual(self.long("echo much; exit 3"), (0, "code 3\n"))

    def test_what_takes_long_is_told_without_a_terminal(self) -> None:
        _, said = self.long('echo half; until grep -q "work: .* s" said; do sleep 0.1; done')
        self.assertRegex(said, r"^the work … \(log: out/log\)\nthe work: 1\d s  half\nthe work: done, 1\d s\ncode 0\n$")


class Tables(unittest.TestCase):
    def test_every_thing_is_described_and_looked_for(self) -> None:
        script = """. scripts/lib/things.sh
for thing in $(printf '%s\\n' "${targets[@]#*:}" | tr -d '|'); do
  [ -n "$(name_of "$thing")" ] && [ -n "$(advice_of "$thing")" ] && declare -F "has_$thing" >/dev/null || echo "$thing"
done
[ -n "$least_rust" ] && [ -n "$least_go" ] || echo versions
target_names"""
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
        known = set(done.stdout.split())
        asked = set()
        for file in ("Makefile", "bindings-node/pack", "bindings-python/wheel", "tests/fresh/run.py"):
            asked |= set(re.findall(r"scripts/setup\.sh\"?,? \"?([a-z][\w-]*)", (ROOT / file).read_text()))
        self.assertIn("install-c", asked)
        # What the loop prints is no target.
        self.assertEqual(known, asked)

    def test_the_tests_need_what_the_targets_need_that_they_play(self) -> None:
        """Seen to fail with `make test` that did not ask for the patch that it plants faults with."""
        script = '. scripts/lib/things.sh; for target; do things_of "$target" required; done'

        def required(*targets: str) -> set[str]:
            command = ["bash", "-c", script, "bash", *targets]
            return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())

        # A Go of their own age is asked for, which builds every etcd.
        self.assertLessEqual(required("conformance", "lint", "sample", "search", "sim", "teeth") - {"etcd"}, required("test"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

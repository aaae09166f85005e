"""What `make test` consists of: its stages, what each needs, and how each is counted. scripts/test.py runs them.

docs/guarantees.md says to users what is tested when.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# One absolute place, wherever a stage is started from.
TARGET = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip())
LOGS = TARGET / "test-logs"
# The test programs that the first stage has built.
PROGRAMS = LOGS / "programs.json"

# Where Maven's modules lie, and how deep.
SUREFIRE = [("bindings-java", "*/"), ("bindings-java", "*/*/"), ("tests/samples", "*/")]

# What only one stage may use at a time. Cargo locks what it builds in, and whoever comes second would wait there in silence.
CARGO = "what cargo builds"
# Built again, and so replaced, by the tests of these languages: nobody else may run it then.
C, NODE, PYTHON, JAVA = "the C library", "the Node package", "the Python package", "the Java modules"
# Hundreds of servers and clients with leases of seconds: two such stages together are more than two cores can serve in time.
CLOCK = "the clock"


@dataclass
class Stage:
    """One command. A check counts as one; tests are counted by the report of their runner, and at least one must run."""

    name: str
    command: list[str]
    # Tests report for themselves (counts.py says how), or as JUnit's XML, in these folders under names of these patterns.
    is_tests: bool = False
    junit: list[tuple[Path, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # The stages without which this one cannot run.
    needs: list[str] = field(default_factory=list)
    # What it uses that others must not use meanwhile.
    alone: list[str] = field(default_factory=list)
    # It computes and looks at no clock, so it leaves the processors to whoever does (`nice`).
    gives_way: bool = False

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def report(self) -> Path:
        return LOGS / f"{self.name}.json"


def stages(is_full: bool) -> list[Stage]:
    """All of them, in the order in which they start if nothing keeps them; `is_full` is for a night."""

    def size(usual: int, full: int) -> str:
        return str(full if is_full else usual)

    unittests = [sys.executable, "-B", "scripts/unittests.py"]
    pytest_report = LOGS / "python.xml"
    # Nobody tests the speed here: the library that the build has made for all is good enough, but for a night.
    java_library = [] if is_full else ["--dev-library"]
    sim = ["tests/sim/play", "--built"]
    return [
        Stage("scripts", [*unittests, "scripts/test_scripts.py"], is_tests=True),
        Stage("scripts-setup", [*unittests, "scripts/test_setup.py"], is_tests=True),
        # Everything that cargo builds in its dev profile, once, with one set of features: the libraries, the programs and the
        # tests; then the packages of the other languages.
        Stage("build", ["scripts/build.sh", "--tests", str(PROGRAMS), *(["--optimised-java"] if is_full else [])], alone=[CARGO, C, NODE, JAVA]),
        Stage("lint-format", ["cargo", "fmt", "--all", "--check", "--", "--color=never"], gives_way=True),
        # Licences, bans and sources of all crates.
        Stage("lint-deny", ["tools/deny/run"], gives_way=True),
        # The workflows of the CI mean something, and are safe.
        Stage("lint-workflows", ["tools/workflows/run"], gives_way=True),
        # The first of those that use npm's directory or the virtual environment fills it.
        Stage("lint-node", ["bindings-node/lint"], alone=[NODE], gives_way=True),
        Stage("lint-python", ["bindings-python/lint"], alone=[PYTHON], gives_way=True),
        # Before anything that asks for "any" etcd: from here on that is 3.7, as in the cache the newest comes first.
        Stage("servers", [str(TARGET / "debug/leasehold-etcd"), "--build-only"], needs=["build"]),
        # Waits more than it works, so it runs beside what is to be built. Needs nothing of cargo.
        Stage(
            "conformance",
            ["tests/conformance/play", "--built", "--version", "3.7", "--jobs", "6", *([] if is_full else ["--short"])],
            is_tests=True,
            needs=["build", "servers"],
            alone=[C, NODE, JAVA, CLOCK],
        ),
        Stage(
            "lint-clippy",
            ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            alone=[CARGO],
            gives_way=True,
        ),
        Stage(
            "lint-doc",
            # With the private items, so that the links among those are checked too.
            ["cargo", "doc", "--workspace", "--no-deps", "--document-private-items"],
            environment={"RUSTDOCFLAGS": "-D warnings"},
            alone=[CARGO],
            gives_way=True,
        ),
        # The tests on all versions of etcd are among them; each goes through the versions that it is about.
        Stage(
            "workspace",
            ["scripts/cargo_tests.py", "--built", str(PROGRAMS)],
            is_tests=True,
            needs=["build", "servers"],
            alone=[CLOCK],
        ),
        Stage("examples", ["scripts/cargo_tests.py", "--doc"], is_tests=True, needs=["build"], alone=[CARGO], gives_way=True),
        # The locks and queues of the bridge under a scheduler that tries the orders of threads: a bridge of its own, on what the
        # whole workspace stands on.
        Stage(
            "model",
            ["scripts/cargo_tests.py", "--", "--workspace", "--features", "leasehold-bridge/testing,leasehold-bridge/model", "--test", "model"],
            is_tests=True,
            alone=[CARGO],
            gives_way=True,
        ),
        # Seeds and states by the thousand, and faults planted in a copy.
        Stage("simulation", [*sim, "--seeds", size(4_000, 200_000)], needs=["build"], gives_way=True),
        Stage("search", [*sim, "--search", size(120_000, 1_000_000)], needs=["build"], gives_way=True),
        Stage("teeth", ["tests/sim/teeth.py", *([] if is_full else ["--quick"])], gives_way=True),
        # With their documentation, whose warnings fail it.
        Stage(
            "java",
            ["scripts/maven.sh", *java_library, "--verbose", "verify", "-Prelease"],
            is_tests=True,
            junit=[(ROOT / place, f"{depth}target/surefire-reports/TEST-*.xml") for place, depth in SUREFIRE],
            needs=["build", "servers"],
            alone=[JAVA],
        ),
        Stage(
            "python",
            ["bindings-python/test"],
            is_tests=True,
            junit=[(LOGS, pytest_report.name)],
            environment={"PYTEST_ADDOPTS": f"--junitxml='{pytest_report}'"},
            needs=["build", "servers"],
            alone=[PYTHON],
        ),
        Stage("c", [*unittests, "ffi-c/tests/test_c.py"], is_tests=True, needs=["build", "servers"], alone=[CARGO, C]),
        Stage("node", ["bindings-node/test"], is_tests=True, needs=["build", "servers"], alone=[NODE]),
        Stage(
            "sample-sale",
            ["tests/samples/flash-sale/run", "--locks", "none", "leasehold"],
            is_tests=True,
            needs=["build", "servers"],
            alone=[JAVA],
        ),
        # The copied locks must be seen to lose, too; `make sample` plays all of it, and so does a night.
        Stage(
            "sample-copied",
            ["tests/samples/flash-sale/run", "--locks", "jetcd", "article", "redis", *([] if is_full else ["--runs", "frozen"])],
            is_tests=True,
            needs=["build", "servers"],
            alone=[JAVA],
        ),
        # The demos with three and five contenders, and both kinds of instances in one queue, as processes.
        Stage("java-samples", ["tests/samples/java/run"], needs=["build", "servers"], alone=[JAVA]),
        # Installed, and used by projects that know only the coordinates.
        Stage("java-fresh", ["tests/fresh/java.py", *java_library], needs=["build", "servers"], alone=[JAVA]),
        # With the newest of every dependency, which only the registry knows: the one stage that needs a network.
        *([Stage("rust-fresh", ["tests/fresh/rust.py"], needs=["build", "servers"])] if is_full else []),
    ]

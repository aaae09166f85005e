#!/usr/bin/env python3
"""Tests of the C library from outside: programs in C on a real etcd, under valgrind and the sanitizers, and installed.

`make test` runs it in sizes that take a minute or two; LEASEHOLD_FULL=1 in full. Ends every process that it starts.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip())
# For cargo and make, which are called in other directories.
os.environ["CARGO_TARGET_DIR"] = str(TARGET)
BUILT = TARGET / "c" / "debug"
FFI = ROOT / "ffi-c"
FULL = bool(os.environ.get("LEASEHOLD_FULL"))
# No program may hang the rest. Ten thousand cycles under valgrind are minutes on a quiet machine, and twenty on a busy one.
LIMIT_SECONDS = 3600 if FULL else 400
SONAME = subprocess.run([FFI / "install/soname"], capture_output=True, text=True, check=True).stdout.strip()
# What the shared library may ask of its machine.
GLIBC = (2, 28)

CXX = os.environ.get("CXX", "c++")

etcd = None
url = ""


def call(*command: object, **options) -> str:
    """Runs a command, which must succeed, and returns what it printed."""
    done = subprocess.run(
        [str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL, **options,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def patient() -> str:
    """The etcd, for programs that are not about time limits: on a busy machine, and under valgrind, a moment is minutes long."""
    return f"{url}?request_timeout=600s&connect_timeout=60s&ttl=600s"


def ask(path: str, **body: object) -> dict[str, object]:
    """Asks the etcd itself, by its gateway for JSON."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as reply:
        return json.load(reply)


def keys(prefix: str) -> int:
    """How many keys start with this, which ends in a slash."""
    first, last = (base64.b64encode(key.encode()).decode() for key in (prefix, prefix[:-1] + "0"))
    return int(ask("/v3/kv/range", key=first, range_end=last, count_only=True).get("count", 0))


def time_to_live(lease: int) -> int:
    """How many seconds a lease still lives; -1 if there is none."""
    return int(ask("/v3/lease/timetolive", ID=lease)["TTL"])


def needs(test: unittest.TestCase, tool: str) -> None:
    """Skips the test where there is no such tool, and says so in the summary."""
    if not shutil.which(tool):
        why = f"there is no {tool}; make doctor says how to get it"
        print(f"SKIPPED {test.id()}: {why}")
        test.skipTest(why)


def setUpModule() -> None:
    global etcd, url
    cargo = ["cargo", "build", "--quiet"]
    # A library with functions that fail, panic and never answer; after it, the one that users get.
    call(*cargo, "--workspace", "--lib", "--features", "leasehold-ffi-c/testing", cwd=ROOT)
    testing = TARGET / "c" / "testing"
    testing.mkdir(parents=True, exist_ok=True)
    shutil.copy2(TARGET / "debug" / "libleasehold_ffi.so", testing / SONAME)
    shutil.copy2(TARGET / "debug" / "libleasehold_ffi.a", testing)
    call(*cargo, "--workspace", "--bins", "--lib", cwd=ROOT)
    call("make", "--silent", "-C", FFI, "tests")
    command = [TARGET / "debug" / "leasehold-etcd", "--version", "3.7"]
    etcd = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    url = json.loads(etcd.stdout.readline())["endpoints"][0]


def tearDownModule() -> None:
    if etcd:
        # It removes its etcd when its input ends.
        etcd.stdin.close()
        etcd.wait(60)
        etcd.stdout.close()


class Programs(unittest.TestCase):
    def test_misuse_gets_a_status(self) -> None:
        call(BUILT / "test-misuse")

    def test_the_wrapper_for_cpp(self) -> None:
        needs(self, CXX)
        call(BUILT / "test-wrapper")
        call(BUILT / "test-modern")

    def test_the_wrapper_without_exceptions(self) -> None:
        needs(self, CXX)
        call(BUILT / "test-plain")
        # What nobody can catch ends the process, and says what it was: with exceptions, when one leaves a callback.
        for program, said in (("test-plain", "leasehold: INVALID_ARGUMENT: "), ("test-wrapper", "of the user's function")):
            with self.assertRaisesRegex(AssertionError, rf"ended with -6\n(.*\n)*.*{said}"):
                call(BUILT / program, "ends")

    def test_the_headers_are_for_every_standard_and_strict_compilers(self) -> None:
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wcast-qual", "-Wundef"]
        in_cpp = ["-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-Wnon-virtual-dtor", "-Woverloaded-virtual", "-Wextra-semi"]
        tries = [("c", "leasehold.h", standard, ["-Wstrict-prototypes"]) for standard in ("c89", "c99", "c17", "c2x")]
        if shutil.which(CXX):
            tries += [("c++", "leasehold.h", standard, in_cpp) for standard in ("c++11", "c++14")]
            # The tests of the wrapper are in C++17 and C++20.
            tries += [("c++", "leasehold.hpp", "c++2b", in_cpp), ("c++", "leasehold.hpp", "c++17", [*in_cpp, "-fno-exceptions", "-fno-rtti"])]
        for language, header, standard, more in tries:
            with self.subTest(header=header, standard=standard):
                compiler = [CXX if language == "c++" else "cc", "-fsyntax-only", f"-std={standard}", *strict, *more, f"-I{ROOT / 'include'}"]
                subprocess.run([*compiler, "-x", language, "-"], input=f"#include <{header}>\n", text=True, check=True)

    def test_what_other_versions_of_the_headers_are_built_into_has_other_names(self) -> None:
        """In one process the linker would otherwise take a function of one version for that of the other."""
        needs(self, CXX)
        user = "#include <leasehold.hpp>\nvoid user(leasehold::client &c) { c.acquire({}).release(); }\n"
        with tempfile.TemporaryDirectory() as place:
            names = []
            for version in ("this", "next"):
                include, built = Path(place, version), Path(place, f"{version}.so")
                shutil.copytree(ROOT / "include", include)
                if version == "next":
                    header = include / "leasehold.h"
                    header.write_text(re.sub(r"(#define LH_ABI_VERSION) \d+", r"\1 777", header.read_text()))
                compiler = [CXX, "-std=c++17", "-fvisibility=hidden", "-shared", "-fPIC", f"-I{include}", "-x", "c++", "-", "-o", built]
                subprocess.run(compiler, input=user, text=True, check=True)
                names.append({line.split()[-1] for line in call("nm", built).splitlines() if "9leasehold" in line})
                # Or nobody outside could catch it, where the C++ library compares types by their address.
                shown = call("nm", "-D", "--defined-only", built)
                self.assertRegex(shown, r"_ZTIN9leasehold\w*5errorE")
            self.assertGreater(len(names[0]), 20)
            self.assertEqual(names[0] & names[1], set())

    def test_what_a_program_does_with_its_process(self) -> None:
        print(call(BUILT / "test-process"), end="")

    def test_cycles_and_cancels_leave_nothing(self) -> None:
        cycles, cancels = (10_000, 300) if FULL else (1_000, 100)
        print(call(BUILT / "test-cycles", patient(), cycles, cancels), end="")

    def test_forks(self) -> None:
        print(call(BUILT / "test-forks", patient(), 200 if FULL else 50), end="")

    def test_an_end_with_operations_pending(self) -> None:
        for how in ("return", "exit", "close"):
            for _ in range(50 if FULL else 15):
                # What the one before left in etcd ends with its lease: another name.
                options = f"ttl=2s&request_timeout=60s&namespace=/{how}/{os.urandom(4).hex()}"
                lease = int(call(BUILT / "test-pending", f"{url}?{options}", how), 16)
                if how == "close":
                    self.assertEqual(time_to_live(lease), -1, "its lease outlived the close")
                    self.assertEqual(keys(f"/{how}/"), 0, "a key outlived the close")
        # What ended without a word is gone as after a crash.
        deadline = time.monotonic() + 30
        while keys("/return/") + keys("/exit/") > 0:
            self.assertLess(time.monotonic(), deadline, "keys outlived their lease")
            time.sleep(0.05)

    def test_panics_and_failures_become_statuses(self) -> None:
        printed = call(TARGET / "c" / "testing" / "test-panics", env={**os.environ, "RUST_BACKTRACE": "0"})
        print(*re.findall(r".*: \d+ ns", printed), sep="\n")


class Sanitized(unittest.TestCase):
    """AddressSanitizer with its leak check, and UndefinedBehaviorSanitizer, on the programs and the library's memory.

    Not the forks: the allocator of AddressSanitizer can itself hang in the child of a program with threads (seen with gcc 12
    in 1 of 1,000 forks: malloc waits for a lock of the parent's). Not test-process: where a destructor of pthread_key_create
    uses the library, glibc keeps a note of each variable of the thread that it never frees.
    """

    def test_misuse(self) -> None:
        call(BUILT / "sanitized-misuse")

    def test_the_wrapper_for_cpp(self) -> None:
        needs(self, CXX)
        call(BUILT / "sanitized-wrapper")
        call(BUILT / "sanitized-modern")

    def test_cycles_and_cancels(self) -> None:
        print(call(BUILT / "sanitized-cycles", patient(), *((10_000, 300) if FULL else (1_000, 100))), end="")


class Valgrind(unittest.TestCase):
    def check(self, *command: object) -> None:
        needs(self, "valgrind")
        options = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]
        call("valgrind", *options, "--show-leak-kinds=definite", "--fair-sched=yes", *command)

    def test_misuse(self) -> None:
        self.check(BUILT / "test-misuse")

    def test_cycles_and_cancels(self) -> None:
        self.check(BUILT / "test-cycles", patient(), *((10_000, 300) if FULL else (200, 20)))


class Examples(unittest.TestCase):
    def example(self, name: str) -> str:
        return call(BUILT / f"example-{name}", f"{url}?namespace=/example/{name}")

    def test_blocking(self) -> None:
        self.assertRegex(self.example("blocking"), r"^mine, with the token \d+\n$")

    def test_timed(self) -> None:
        self.assertEqual(self.example("timed"), "after 200 ms: NOT_ACQUIRED\nafter a change of mind: CANCELLED\n")

    def test_kinds(self) -> None:
        printed = "two readers\ntwo more of three: NOT_ACQUIRED\nboth accounts\n10.0.0.1:80 leads\n"
        self.assertEqual(self.example("kinds"), printed)

    def test_event_loop(self) -> None:
        printed = self.example("event_loop")
        self.assertEqual(printed.count("held, token"), 3, printed)
        self.assertEqual(printed.count("released, OK"), 3, printed)

    def test_on_lost(self) -> None:
        self.assertEqual(self.example("on_lost"), "stopped: KEY_DELETED\nrelease: LOST\n")

    def test_cpp(self) -> None:
        needs(self, CXX)
        self.assertRegex(self.example("cpp"), r"^mine, .*\nnobody else gets it\nthe next one has the token \d+\n$")


class Loops(unittest.TestCase):
    """The examples with a loop of somebody else's, where its headers are."""

    def example(self, name: str) -> str:
        program = BUILT / f"loop-{name}"
        if not program.exists():
            why = f"{name} is not installed; make doctor says how to get it"
            print(f"SKIPPED {self.id()}: {why}")
            self.skipTest(why)
        return call(program, f"{url}?namespace=/loop/{name}")

    def test_libuv(self) -> None:
        self.assertRegex(self.example("libuv"), r"^held, token \d+\n3 steps of work\nreleased, OK\n$")

    def test_glib(self) -> None:
        self.assertRegex(self.example("glib"), r"^held, token \d+\nsome work\nreleased, OK\n$")

    def test_asio(self) -> None:
        printed = re.fullmatch(r"held, token (\d+)\nsome work\nthen held, token (\d+)\n", self.example("asio"))
        self.assertIsNotNone(printed)
        self.assertLess(*map(int, printed.groups()))


class Installed(unittest.TestCase):
    """`make install-c` into an empty directory, and programs elsewhere that find it as C programs do."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = Path(tempfile.mkdtemp(prefix="leasehold-c-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.prefix = cls.place / "usr"
        cls.install(cls.prefix, TARGET / "debug" / "libleasehold_ffi.a")
        cls.lib = cls.prefix / "lib"
        # The one object of all that is in cargo's library, a tenth of its size: what is installed again is made of it.
        cls.reduced = cls.lib / "libleasehold.a"
        cls.shared = next(cls.lib.glob("libleasehold.so.*.*.*"))
        cls.work = cls.place / "work"
        cls.work.mkdir()
        for name in ("blocking.c", "kinds.c", "cpp.cpp"):
            shutil.copy(FFI / "examples" / name, cls.work)
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(cls.lib / "pkgconfig"), "LD_LIBRARY_PATH": str(cls.lib)}

    @staticmethod
    def install(prefix: Path, archive: Path, linker: str = "zig", **places: str) -> str:
        # As `make install-c` does, but not the optimised build.
        environment = {**os.environ, "PREFIX": str(prefix), "ARCHIVE": str(archive), "LINKER": linker, **places}
        return call(FFI / "install" / "run", env=environment)

    def test_the_licence_the_notices_and_the_bill_of_materials_go_along(self) -> None:
        doc = self.prefix / "share/doc/leasehold"
        for name in ("LICENSE", "THIRD-PARTY-NOTICES.txt"):
            self.assertEqual((doc / name).read_text(), (ROOT / name).read_text())
        bill = json.loads((doc / "sbom.cdx.json").read_text())
        self.assertEqual(bill["metadata"]["component"]["name"], "leasehold-ffi-c")

    def test_examples_in_every_way(self) -> None:
        """Each example does the same in its own tests; what is installed makes a difference in C and in C++, not in each."""
        needs(self, "pkg-config")
        environment = {**self.environment, "CMAKE_PREFIX_PATH": str(self.prefix)}
        names = sorted(path.name for path in (FFI / "examples").glob("*.c*")) if FULL else ["blocking.c", "cpp.cpp"]
        said = call(FFI / "tests" / "installed", url, *names, env=environment)
        ways = 4 if shutil.which("cmake") else 2
        compiled = [name for name in names if name.endswith(".c") or shutil.which(CXX)]
        self.assertEqual(said.count("ok "), ways * len(compiled), said)

    def test_what_is_linked_statically_asks_for_no_loader(self) -> None:
        needs(self, "pkg-config")
        words = "cc -static blocking.c $(pkg-config --static --cflags --libs leasehold) -o static"
        call("sh", "-c", words, cwd=self.work, env=self.environment)
        self.assertNotIn("INTERP", call("readelf", "--program-headers", "--wide", self.work / "static"))

    def test_in_debians_places(self) -> None:
        needs(self, "pkg-config")
        needs(self, "cmake")
        machine = call("cc", "-print-multiarch").strip()
        if not machine:
            why = "this compiler knows no places for several machines"
            print(f"SKIPPED {self.id()}: {why}")
            self.skipTest(why)
        root = self.place / "debian"
        self.install(Path("/usr"), self.reduced, "cc", LIBDIR=f"/usr/lib/{machine}", DESTDIR=str(root))
        lib = root / "usr/lib" / machine
        self.assertTrue((lib / SONAME).exists() and (root / "usr/include/leasehold.h").exists())
        environment = {**os.environ, "PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib)}
        call("sh", "-c", "cc blocking.c $(pkg-config --cflags --libs leasehold) -o debian", cwd=self.work, env=environment)
        self.assertIn("mine, with the token", call(self.work / "debian", f"{url}?namespace=/debian", env=environment))
        user = self.place / "debian-user"
        user.mkdir()
        shutil.copy(FFI / "examples" / "blocking.c", user)
        (user / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(leasehold 0.1 REQUIRED)\n"
            "add_executable(user blocking.c)\ntarget_link_libraries(user leasehold::leasehold)\n"
        )
        call("cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={root}/usr")
        call("cmake", "--build", user / "build")
        self.assertIn("mine, with the token", call(user / "build" / "user", f"{url}?namespace=/debian-cmake"))

    def test_the_archive_works_wherever_it_is_unpacked(self) -> None:
        needs(self, "pkg-config")
        # The same build gives the same bytes. Of a library whose functions do nothing, as packing the real one takes its time.
        names = re.findall(r"^lh_\w+", "\n".join(line.split()[-1] for line in call("nm", self.reduced).splitlines() if " T " in line), re.MULTILINE)
        empty = self.work / "empty.c"
        empty.write_text("\n".join(f"void {name}(void) {{}}" for name in names))
        call("cc", "-c", empty, "-o", self.work / "empty.o")
        call("ar", "rcs", self.work / "empty.a", self.work / "empty.o")
        self.assertEqual(*(self.pack(self.work / "empty.a", self.place / name) for name in ("once", "twice")))
        packed = self.pack(self.reduced, self.place / "packed")
        elsewhere = self.place / "else where"
        elsewhere.mkdir()
        call("tar", "-xf", self.place / "packed" / packed.split()[-1], "-C", elsewhere)
        found = next(elsewhere.iterdir())
        self.assertTrue((found / "share/doc/leasehold/LICENSE").exists())
        environment = {**os.environ, "PKG_CONFIG_PATH": str(found / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(found / "lib")}
        words = "eval cc blocking.c $(pkg-config --cflags --libs leasehold) -o unpacked"
        call("sh", "-c", words, cwd=self.work, env=environment)
        self.assertIn("mine, with the token", call(self.work / "unpacked", f"{url}?namespace=/unpacked", env=environment))

    @staticmethod
    def pack(archive: Path, to: Path) -> str:
        """Packs the library; returns the checksum and the name of what it is in."""
        environment = {**os.environ, "ARCHIVE": str(archive), "LINKER": "cc", "TO": str(to)}
        return call(FFI / "install" / "dist", env=environment).splitlines()[-1]

    def test_conan_makes_a_package(self) -> None:
        """Conan itself makes the package and a program that finds it; of the library that is here, but for a night, of its own."""
        needs(self, "cmake")
        conan = Path(call(FFI / "install" / "venv", "conan", FFI / "tests" / "conan.txt").splitlines()[-1]) / "conan"
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "CONAN_HOME": home}
            if not FULL:
                environment["ARCHIVE"] = str(self.reduced)
            call(conan, "profile", "detect", env=environment)
            for shared in (True, False) if FULL else (True,):
                said = call(conan, "create", FFI / "install" / "conan", "-o", f"leasehold/*:shared={shared}", env=environment)
                self.assertIn("mine, with the token", said)

    def test_the_port_for_vcpkg_makes_a_package(self) -> None:
        """As far as it can be seen without vcpkg: what the port does, and a program that finds what it left."""
        needs(self, "cmake")
        project = self.place / "vcpkg-user"
        project.mkdir()
        shutil.copy(FFI / "examples" / "blocking.c", project)
        # Conan's has the shared library.
        kinds = {"static": "libleasehold.a"} | ({"dynamic": "libleasehold.so"} if FULL else {})
        for linkage, library in kinds.items():
            place = self.place / f"vcpkg-{linkage}"
            archive = [] if FULL else [f"-DARCHIVE={self.reduced}"]
            call("cmake", f"-DPLACE={place}", f"-DLINKAGE={linkage}", *archive, "-P", FFI / "tests" / "vcpkg.cmake")
            package = place / "package"
            self.assertEqual([path.name for path in package.glob("lib/libleasehold.*") if path.name in ("libleasehold.so", "libleasehold.a")], [library])
            for name in ("copyright", "leaseholdConfig.cmake", "leaseholdConfigVersion.cmake"):
                self.assertTrue((package / "share/leasehold" / name).exists())
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(leasehold 0.1 CONFIG REQUIRED)\n"
                "add_executable(user blocking.c)\ntarget_link_libraries(user leasehold::leasehold)\n"
            )
            built = project / linkage
            call("cmake", "-S", project, "-B", built, f"-Dleasehold_DIR={package}/share/leasehold")
            call("cmake", "--build", built)
            self.assertIn("mine, with the token", call(built / "user", f"{url}?namespace=/vcpkg/{linkage}"))

    def test_panics_become_statuses(self) -> None:
        # zig brings its own unwinder, the compiler here takes the system's, and the static library takes the program's.
        archive = TARGET / "c" / "testing" / "libleasehold_ffi.a"
        for linker, name, link in (
            ("zig", "shared", "-lleasehold"), ("cc", "shared", "-lleasehold"), ("cc", "static", "-l:libleasehold.a"),
        ):
            prefix = self.place / f"testing-{linker}"
            if not prefix.exists():
                self.install(prefix, archive, linker)
                archive = prefix / "lib/libleasehold.a"
            quiet = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib"), "RUST_BACKTRACE": "0"}
            source, include = FFI / "tests" / "panics.c", f"-I{prefix}/include"
            program = self.work / f"panics-{linker}-{name}"
            call("cc", "-std=gnu17", include, source, "-o", program, f"-L{prefix}/lib", link, "-pthread", "-ldl", "-lrt", "-lm")
            call(program, env=quiet)

    def test_by_default_it_is_linked_without_zig(self) -> None:
        prefix = self.place / "plain"
        environment = {name: value for name, value in os.environ.items() if name not in ("LINKER", "PKG_CONFIG_PATH")}
        archive = str(self.reduced)
        # Whoever asks for Python, which zig comes with, is refused.
        environment |= {"PREFIX": str(prefix), "ARCHIVE": archive, "PYTHON": "/bin/false"}
        told = call(FFI / "install" / "run", env=environment)
        # What it says that programs need is what they need.
        found = re.findall(r"export (\w+)=([^ ,\n]+)", told)
        self.assertIn(("LD_LIBRARY_PATH", f"{prefix}/lib"), found, told)
        program = self.work / "plain"
        words = ["cc", self.work / "blocking.c", "-o", program, f"-I{prefix}/include", f"-L{prefix}/lib", "-lleasehold"]
        call(*words)
        printed = call(program, f"{url}?namespace=/installed/plain", env={**os.environ, **dict(found)})
        self.assertIn("mine, with the token", printed)

    def test_where_it_cannot_go_is_said_before_anything_is_built(self) -> None:
        for wrong, said in (
            ({"PREFIX": "usr/local"}, "must be absolute"), ({"LIBDIR": "/a b"}, "must be absolute"),
            ({"LINKER": "gold"}, "LINKER is cc or zig"), ({"PREFIX": str(self.work / "blocking.c")}, "cannot be written to"),
        ):
            with self.assertRaisesRegex(AssertionError, said):
                call(FFI / "install" / "run", "--check", env={**os.environ, **wrong})

    def test_a_python_that_cannot_get_zig_is_said_before_anything_is_built(self) -> None:
        """Seen to fail with a check that left it to the linking, after minutes."""
        copy = self.place / "nothing cached/ffi-c/install"
        shutil.copytree(FFI / "install", copy)
        environment = {**os.environ, "PREFIX": str(self.place / "zig"), "LINKER": "zig", "PYTHON": "false"}
        with self.assertRaisesRegex(AssertionError, "needs its venv and pip"):
            call(copy / "run", "--check", env=environment)

    def test_only_the_names_of_the_header_are_shown(self) -> None:
        header = (ROOT / "include" / "leasehold.h").read_text()
        # A function's name, at the start of its declaration's list of parameters.
        declared = set(re.findall(r"^[a-z].*?\b\**(lh_\w+)\(", header, re.MULTILINE)) - {"lh_callback"}
        self.assertGreater(len(declared), 50)
        for command in (["nm", "-D", "--defined-only", self.shared], ["nm", "-g", "--defined-only", self.lib / "libleasehold.a"]):
            # With the version of the interface behind it, which is a symbol, too.
            shown = {line.split()[-1].partition("@")[0] for line in call(*command).splitlines() if " lh_" in line}
            others = [line for line in call(*command).splitlines() if " T " in line and " lh_" not in line]
            self.assertEqual(others, [], f"{command}")
            self.assertEqual(shown, declared, f"{command}")

    def test_nothing_changes_that_programs_were_built_with(self) -> None:
        now = set(call(FFI / "abi" / "read.py").splitlines())
        before = (FFI / "abi" / f"{SONAME.removeprefix('libleasehold.so.')}.txt").read_text().splitlines()
        self.assertGreater(len(before), 150)
        changed = [fact for fact in before if fact not in now]
        self.assertEqual(changed, [], "what programs were built with has changed: raise the minor version, or take it back")

    def test_abidiff_finds_nothing_incompatible(self) -> None:
        needs(self, "abidiff")
        library = self.place / "libleasehold-stub.so"
        call(FFI / "abi" / "read.py", "--library", library)
        baseline = FFI / "abi" / f"{SONAME.removeprefix('libleasehold.so.')}.abi"
        # What is new may come; a struct that says its size may grow at its end, which the list above watches.
        done = subprocess.run(["abidiff", "--no-added-syms", baseline, library], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(f"abidiff: {done.returncode}", *done.stdout.splitlines()[:3], sep="\n")
        # Its bits: 1 an error, 2 wrong words, 4 a change, 8 one that breaks programs.
        self.assertEqual(done.returncode & ~4, 0, done.stdout)

    def test_symbols_have_the_version_of_the_interface(self) -> None:
        version = f"LEASEHOLD_{SONAME.removeprefix('libleasehold.so.')}"
        shown = [line.split() for line in call("readelf", "--dyn-syms", "--wide", self.shared).splitlines() if " lh_" in line]
        self.assertGreater(len(shown), 50)
        self.assertEqual({line[-1].rpartition("@")[2] for line in shown}, {version})

    def test_a_program_of_another_interface_is_refused_by_name(self) -> None:
        program = self.work / "older"
        call("cc", self.work / "blocking.c", "-o", program, f"-I{self.prefix}/include", f"-L{self.lib}", "-lleasehold")
        # As if it had been linked with the library of another minor version.
        other = SONAME[:-1] + "0"
        program.write_bytes(program.read_bytes().replace(SONAME.encode(), other.encode()))
        with self.assertRaisesRegex(AssertionError, rf"{re.escape(other)}: cannot open shared object file"):
            call(program, url, env=self.environment)
        # And if somebody has given ours that name.
        (self.work / other).symlink_to(self.shared)
        program.write_bytes(program.read_bytes().replace(b"LEASEHOLD_" + SONAME[16:].encode(), b"LEASEHOLD_" + other[16:].encode()))
        with self.assertRaisesRegex(AssertionError, r"version `LEASEHOLD_[0-9.]+' not found"):
            call(program, url, env={**self.environment, "LD_LIBRARY_PATH": str(self.work)})

    def test_the_soname_and_the_floor_of_glibc(self) -> None:
        self.assertRegex(call("readelf", "-d", self.shared), rf"SONAME.*\[{re.escape(SONAME)}\]")
        wanted = set(re.findall(r"GLIBC_(\d+)\.(\d+)", call("objdump", "-T", self.shared)))
        newest = max((int(major), int(minor)) for major, minor in wanted)
        print(f"the shared library needs glibc {newest[0]}.{newest[1]}")
        self.assertLessEqual(newest, GLIBC)


class Recipes(unittest.TestCase):
    """Of those who build it in their own way."""

    def test_the_port_for_vcpkg_has_our_version(self) -> None:
        port = json.loads((FFI / "install" / "vcpkg" / "vcpkg.json").read_text())
        self.assertEqual(f"libleasehold.so.{port['version'].rpartition('.')[0]}", SONAME)
        self.assertIn(f'version = "{port["version"]}"\n', (ROOT / "Cargo.toml").read_text())


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])

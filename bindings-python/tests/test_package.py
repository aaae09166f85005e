"""What pip installs: the wheel on every CPython of this machine, in fresh environments outside of the repository.

Built for these tests without optimisation; with LEASEHOLD_FULL=1 as it is published.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import FULL, ROOT, TARGET, Server
from test_pages import EXAMPLE

BINDINGS = ROOT / "bindings-python"
BIN = Path(sys.executable).parent
# What the licences of the crates in the module ask to pass on, and our own.
NOTICES = ("LICENSE", "THIRD-PARTY-NOTICES.txt")
# With an empty cache, the first of them compiles everything that the module is made of.
pytestmark = pytest.mark.timeout(1400)


class Packages:
    """The wheel and the source distribution."""

    def __init__(self, folder: Path) -> None:
        (self.wheel,) = folder.glob("leasehold-*.whl")
        (self.source,) = folder.glob("leasehold-*.tar.gz")
        with zipfile.ZipFile(self.wheel) as wheel:
            self.files = {name: wheel.read(name) for name in wheel.namelist()}


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([BINDINGS / "wheel", folder, "dist" if FULL else "dev"], check=True)
    return Packages(folder)


def pythons() -> dict[str, Path]:
    """Every CPython from 3.10 on, by its version: those of pyenv, and on the PATH."""
    folders = list((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    folders += [Path(folder) for folder in os.environ["PATH"].split(os.pathsep) if "shims" not in folder]
    found: dict[str, Path] = {}
    for program in [Path(sys.executable), *(found for folder in folders for found in folder.glob("python3.[0-9]*"))]:
        if re.fullmatch(r"python(3\.\d+)?", program.name):
            say = "import sys; print(*sys.version_info[:2], sys.implementation.name)"
            done = subprocess.run([program, "-c", say], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                major, minor, kind = done.stdout.split()
                if kind == "cpython" and (int(major), int(minor)) >= (3, 10):
                    found.setdefault(f"{major}.{minor}", program)
    return found


def clean() -> dict[str, str]:
    """An environment in which nothing of the repository is to be found."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYENV"))
    }


def install(package: Path, python: Path, folder: Path) -> Path:
    """Installs it into a fresh environment; the Python there."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, env=clean())
    installed = folder / "bin" / "python"
    pip = [BIN / "pip", "--python", installed, "install", "--quiet", "--no-index", package]
    subprocess.run(pip, check=True, env=clean())
    return installed


@pytest.mark.parametrize("python", [pytest.param(program, id=version) for version, program in pythons().items()])
def test_the_wheel_in_a_fresh_environment(python: Path, packages: Packages, server: Server, tmp_path: Path) -> None:
    installed = install(packages.wheel, python, tmp_path / "venv")
    examples = EXAMPLE.findall((BINDINGS / "README.md").read_text())
    assert examples
    for code in examples:
        program = code.replace("http://127.0.0.1:2379", server.url)
        command = [installed, "-W", "error", "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=clean(), capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        assert "mine, with the token" in done.stdout


def test_the_wheel_runs_on_every_linux_with_glibc_2_28(packages: Packages) -> None:
    done = subprocess.run([BIN / "auditwheel", "show", packages.wheel], capture_output=True, text=True, check=True)
    tags = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)", done.stdout)]
    assert tags, done.stdout
    assert min(tags) <= (2, 28), done.stdout


def test_the_wheel_holds_what_it_should(packages: Packages) -> None:
    assert packages.wheel.name.split("-")[2:4] == ["cp310", "abi3"]
    module = {f"leasehold/{name}" for name in ("_native.abi3.so", "_native.pyi", "py.typed")}
    sources = (BINDINGS / "python").rglob("*.py")
    expected = module | {str(path.relative_to(BINDINGS / "python")) for path in sources}
    about = {name.rpartition(".dist-info/")[2]: name for name in packages.files if ".dist-info/" in name}
    assert set(packages.files) - set(about.values()) == expected
    for name in NOTICES:
        assert packages.files[about[f"licenses/{name}"]] == (ROOT / name).read_bytes()
    metadata = packages.files[about["METADATA"]].decode()
    assert "protoc" in metadata, "the page says what building from source needs"
    assert "License-Expression: Apache-2.0" in metadata


def test_what_is_published_has_no_operations_for_tests(packages: Packages, tmp_path: Path) -> None:
    with zipfile.ZipFile(packages.wheel) as wheel:
        wheel.extractall(tmp_path)
    code = "import leasehold._native as native; assert not hasattr(native, 'testing')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=clean())


def test_the_source_distribution(packages: Packages, tmp_path: Path) -> None:
    with tarfile.open(packages.source) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
        for name in NOTICES:
            text = source.extractfile(next(member for member in source if member.name.partition("/")[2] == name))
            assert text is not None
            assert text.read() == (ROOT / name).read_bytes()
        page = source.extractfile(next(member for member in source if member.name.endswith("/PKG-INFO")))
        assert page is not None
        assert b"protoc" in page.read(), "the page says what building it needs"
    assert {"Cargo.lock", "PKG-INFO", "core/src/lib.rs", "core/bridge/src/lib.rs"} <= names
    if not FULL:
        return
    # Built as pip builds it, with the tools of this environment; what cargo has compiled of other crates is used again.
    pip = [BIN / "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    tools = {"PATH": f"{BIN}:{os.environ['PATH']}", "CARGO_TARGET_DIR": str(TARGET)}
    subprocess.run([*pip, packages.source], check=True, env={**clean(), **tools})
    (wheel,) = tmp_path.glob("leasehold-*.whl")
    installed = install(wheel, Path(sys.executable), tmp_path / "venv")
    code = "import leasehold; print(leasehold.Client('memory://').lock('a').acquire().held)"
    done = subprocess.run([installed, "-c", code], capture_output=True, text=True, check=True, env=clean())
    assert done.stdout == "True\n"

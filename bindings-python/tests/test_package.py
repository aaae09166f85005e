"""What pip installs: the wheel on every CPython of this machine, in fresh environments outside of the repository.

`bindings-python/wheel` comes first: without it, these are skipped, and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import FULL, ROOT, Server

WHEELS = ROOT / "target" / "wheels"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(
    not list(WHEELS.glob("leasehold-*.whl")), reason="there is no wheel; bindings-python/wheel builds it"
)


def the(pattern: str) -> Path:
    (found,) = WHEELS.glob(pattern)
    return found


def pythons() -> dict[str, Path]:
    """Every CPython from 3.10 on, by its version: on the PATH and those of pyenv."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += (Path.home() / ".pyenv" / "versions").glob("*/bin")
    found: dict[str, Path] = {}
    for folder in folders:
        for program in sorted(folder.glob("python3.[0-9]*")):
            if re.fullmatch(r"python3\.\d+", program.name):
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


@pytest.mark.parametrize("version", [f"3.{minor}" for minor in range(10, 16)])
def test_the_wheel_in_a_fresh_environment(version: str, server: Server, tmp_path: Path) -> None:
    found = pythons()
    if version not in found:
        pytest.skip(f"no CPython {version} on this machine")
    venv = tmp_path / "venv"
    subprocess.run([found[version], "-m", "venv", venv], check=True, env=clean())
    install = [venv / "bin" / "pip", "install", "--quiet", "--no-index", the("leasehold-*.whl")]
    subprocess.run(install, check=True, env=clean())
    examples = EXAMPLE.findall((ROOT / "bindings-python" / "README.md").read_text())
    assert examples
    for code in examples:
        program = code.replace("http://127.0.0.1:2379", server.url)
        command = [venv / "bin" / "python", "-W", "error", "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=clean(), capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        assert "mine, with the token" in done.stdout


def test_the_wheel_runs_on_every_linux_with_glibc_2_28() -> None:
    done = subprocess.run(
        [BIN / "auditwheel", "show", the("leasehold-*.whl")], capture_output=True, text=True, check=True
    )
    tags = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)", done.stdout)]
    assert tags, done.stdout
    assert min(tags) <= (2, 28), done.stdout


def test_the_wheel_holds_what_it_should() -> None:
    names = zipfile.ZipFile(the("leasehold-*.whl")).namelist()
    for name in ("leasehold/py.typed", "leasehold/_native.pyi", "leasehold/_native.abi3.so", "leasehold/aio/_trio.py"):
        assert name in names
    assert not [name for name in names if "test_" in name or "examples" in name]
    metadata = next(name for name in names if name.endswith("/METADATA"))
    text = zipfile.ZipFile(the("leasehold-*.whl")).read(metadata).decode()
    assert "protoc" in text, "the page says what building from source needs"
    assert "License-Expression: Apache-2.0" in text


def test_what_is_published_has_no_operations_for_tests(tmp_path: Path) -> None:
    with zipfile.ZipFile(the("leasehold-*.whl")) as wheel:
        wheel.extractall(tmp_path)
    code = "import leasehold._native as native; assert not hasattr(native, 'testing')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=clean())


def test_the_source_distribution(tmp_path: Path) -> None:
    with tarfile.open(the("leasehold-*.tar.gz")) as source:
        names = source.getnames()
        for end in ("/Cargo.lock", "/core/src/lib.rs", "/core/bridge/src/lib.rs", "/PKG-INFO"):
            assert [name for name in names if name.endswith(end)], end
    if not FULL:
        return
    # Built as pip builds it; what cargo has compiled of other crates is used again.
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    install = [venv / "bin" / "pip", "install", "--quiet", the("leasehold-*.tar.gz")]
    subprocess.run(install, check=True, env={**clean(), "CARGO_TARGET_DIR": str(ROOT / "target")})
    code = "import leasehold; print(leasehold.Client('memory://').lock('a').acquire().held)"
    done = subprocess.run(
        [venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=True, env=clean()
    )
    assert done.stdout == "True\n"
    shutil.rmtree(venv)

"""What someone sees who builds from source: the backend brings protoc along, and says in its first line what it cannot bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parent.parent / "packaging"


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with a C compiler, a good Rust, and nothing else."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, text in {"cc": ":", "cargo": ":", "rustc": "echo rustc 1.99.0"}.items():
        script(place / name, text)
    return place


def call(tools: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tools), "PYTHONPATH": str(PACKAGING)}
    # The folder in which pip calls a backend.
    command = [sys.executable, "-B", "-c", f"import leasehold_build as build\n{code}"]
    return subprocess.run(command, cwd=PACKAGING.parent, env=environment, capture_output=True, text=True, check=False)


def test_brings_protoc_where_there_is_none_that_works(tools: Path) -> None:
    required = "print(build.get_requires_for_build_wheel())"
    assert "grpcio-tools" in call(tools, required).stdout
    # Debian's protoc without the package of its include files.
    script(tools / "protoc", "exit 1")
    assert "grpcio-tools" in call(tools, required).stdout
    script(tools / "protoc", "exit 0")
    assert call(tools, required).stdout == "[]\n"


def test_hands_the_protoc_it_brought_to_cargo(tools: Path, tmp_path: Path) -> None:
    """Stands in for grpcio-tools, which knows its include files by its own place."""
    package = tmp_path / "grpc_tools"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "protoc.py").write_text("import sys\nprint('protoc with', sys.argv[1:])\n")
    code = f"""
import os, subprocess, sys
sys.path.append({str(tmp_path)!r})
os.environ["PYTHONPATH"] += os.pathsep + {str(tmp_path)!r}
with build.protoc():
    print(os.environ["PROTOC_INCLUDE"], flush=True)
    subprocess.run([os.environ["PROTOC"], "x y"], check=True)
print("PROTOC" in os.environ)
"""
    told = call(tools, code)
    assert told.stdout.splitlines() == [str(package / "_proto"), "protoc with ['x y']", "False"], told.stderr


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"cc": None}, "needs a C compiler: install one"),
        ({"rustc": "echo rustc 1.75.0"}, "or newer (here: 1.75): run `rustup update stable`"),
    ],
)
def test_says_first_what_is_missing(tools: Path, broken: dict[str, str | None], told: str) -> None:
    for name, text in broken.items():
        if text is None:
            (tools / name).unlink()
        else:
            script(tools / name, text)
    for step in ("prepare_metadata_for_build_wheel", "build_wheel"):
        failed = call(tools, f"build.{step}('.')")
        assert failed.returncode == 1
        first = (failed.stdout + failed.stderr).splitlines()[0]
        assert first.startswith("leasehold: building from source ")
        assert told in first
        assert "--only-binary" in first


def test_says_so_where_protoc_cannot_be_brought(tools: Path) -> None:
    """As with `pip install --no-build-isolation`, where requirements of the build are the caller's affair."""
    failed = call(tools, "import sys; sys.modules['grpc_tools'] = None\nbuild.build_wheel('.')")
    assert failed.returncode == 1
    assert failed.stderr.startswith("leasehold: building from source needs protoc"), failed.stderr

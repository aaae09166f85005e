"""The build backend: maturin, with what else a build from source needs brought along or named.

etcd-client compiles the protocol of etcd with `protoc`. Where there is none, or one without its include files (Debian packs these
on their own), the `protoc` of grpcio-tools becomes a requirement of the build. What cannot be brought along (a C compiler, Rust
that is too old) is said in the first line of the failure, not below two hundred lines of cargo's.

In the source distribution it stands beside `pyproject.toml`, as here. It needs nothing but Python's own library and maturin.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import maturin
from maturin import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None
# Any that knows proto3 will do.
PROTOC = "grpcio-tools>=1.60"
PROBE = 'syntax = "proto3";\nimport "google/protobuf/descriptor.proto";\n'


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    found = maturin.get_requires_for_build_wheel(config_settings)
    return found if has_protoc() else [*found, PROTOC]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return get_requires_for_build_wheel(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    # The first thing that pip asks for, so the first moment to say it.
    check()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    check()
    with protoc():
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    check()
    with protoc():
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def has_protoc() -> bool:
    """Whether there is a protoc that finds its include files."""
    program = os.environ.get("PROTOC") or shutil.which("protoc")
    if not program:
        return False
    with tempfile.TemporaryDirectory() as work:
        probe = Path(work, "probe.proto")
        probe.write_text(PROBE)
        command = [program, f"--proto_path={work}", f"--descriptor_set_out={os.devnull}", str(probe)]
        if include := os.environ.get("PROTOC_INCLUDE"):
            command.insert(1, f"--proto_path={include}")
        try:
            return (
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
                == 0
            )
        except OSError:
            return False


@contextmanager
def protoc() -> Iterator[None]:
    """Lets cargo's build scripts find the protoc of grpcio-tools, where there is no other."""
    if has_protoc():
        yield
        return
    brought = find_spec("grpc_tools")
    if brought is None or brought.origin is None:
        fail(
            f"needs protoc with its include files: `pip install '{PROTOC}'` (with --no-build-isolation), or install your "
            "system's (Debian: apt-get install protobuf-compiler libprotobuf-dev)"
        )
    include = Path(brought.origin).with_name("_proto")
    with tempfile.TemporaryDirectory() as work:
        program = Path(work, "protoc")
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m grpc_tools.protoc "$@"\n')
        program.chmod(0o755)
        before = {name: os.environ.get(name) for name in ("PROTOC", "PROTOC_INCLUDE")}
        os.environ |= {"PROTOC": str(program), "PROTOC_INCLUDE": str(include)}
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def check() -> None:
    """Ends the build, with what to do, where something is missing that pip cannot bring."""
    if sys.platform == "win32":
        fail("does not run on Windows itself: use WSL2")
    if not shutil.which(shlex.split(os.environ.get("CC") or "cc")[0]):
        fail("needs a C compiler: install one (Debian: apt-get install gcc libc6-dev; macOS: xcode-select --install)")
    # Without any cargo, maturin tries to fetch one.
    if shutil.which("cargo"):
        there, least = rust_here(), least_rust()
        if there and there < least:
            shown = ".".join(map(str, there))
            wanted = ".".join(map(str, least))
            fail(f"needs Rust {wanted} or newer (here: {shown}): run `rustup update stable`, or install it (rustup.rs)")


def rust_here() -> tuple[int, ...]:
    try:
        said = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    found = re.search(r"(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def least_rust() -> tuple[int, ...]:
    """What the workspace says, which lies above this directory, or beside it in the source distribution."""
    for place in Path(__file__).resolve().parents[1:3]:
        manifest = place / "Cargo.toml"
        if manifest.is_file() and (
            found := re.search(r'^rust-version = "(\d+)\.(\d+)"', manifest.read_text(), re.MULTILINE)
        ):
            return tuple(map(int, found.groups()))
    return (0, 0)


def fail(what: str) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(
        f"leasehold: building from source {what}. "
        "Wheels need none of this: pip install --only-binary leasehold leasehold\n"
    )
    sys.exit(1)

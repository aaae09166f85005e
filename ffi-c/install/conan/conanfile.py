"""The C library for Conan 2, built from the checkout that this file lies in: `conan create ffi-c/install/conan`.

Needs what `make install-c` needs: Rust, a C compiler, binutils and protoc. Nothing is taken from a remote of Conan. Where ARCHIVE
in the environment names a static library that cargo has built already, as for `install/run`, that one is packed.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.env import Environment
from conan.tools.files import copy, load, rm


class Leasehold(ConanFile):
    name = "leasehold"
    package_type = "library"
    description = "A distributed lock on etcd v3 that you hold by lease"
    license = "Apache-2.0"
    topics = ("etcd", "lock", "lease", "fencing-token")
    settings = "os", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    @property
    def _checkout(self) -> Path:
        return Path(self.recipe_folder).resolve().parents[2]

    def set_version(self) -> None:
        self.version = re.search(r'^version = "(.*)"', load(self, self._checkout / "Cargo.toml"), re.MULTILINE)[1]

    def export_sources(self) -> None:
        # The whole workspace, which cargo wants to see; what git does not know is not ours.
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=self._checkout, check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            place = Path(self.export_sources_folder) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            # Not by Conan's copy, which looks through the whole checkout for each.
            shutil.copy2(self._checkout / name, place)

    def validate(self) -> None:
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("leasehold runs on Linux only")

    def build(self) -> None:
        if "ARCHIVE" in os.environ:
            return
        os.environ.setdefault("CARGO_TARGET_DIR", str(Path(self.build_folder) / "target"))
        self.run("cargo build --locked --profile dist -p leasehold-ffi-c", cwd=self.source_folder)

    def package(self) -> None:
        environment = Environment()
        environment.define("PREFIX", self.package_folder)
        if "ARCHIVE" not in os.environ:
            environment.define("ARCHIVE", str(Path(os.environ["CARGO_TARGET_DIR"]) / "dist" / "libleasehold_ffi.a"))
        with environment.vars(self).apply():
            self.run(str(Path(self.source_folder) / "ffi-c/install/run"))
        copy(self, "*", Path(self.package_folder) / "share/doc/leasehold", Path(self.package_folder) / "licenses")
        lib = Path(self.package_folder) / "lib"
        # What finds the library is written by Conan's generators.
        rm(self, "*", lib / "pkgconfig")
        rm(self, "*", lib / "cmake", recursive=True)
        rm(self, "*.a" if self.options.shared else "*.so*", lib)

    def package_info(self) -> None:
        self.cpp_info.libs = ["leasehold"]
        self.cpp_info.set_property("cmake_target_name", "leasehold::leasehold")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl", "rt", "m"]

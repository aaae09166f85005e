#!/usr/bin/env bash
# Makes the bindings of every language, and the programs written in them, usable from this repository.
#
# Arguments go to scripts/maven.sh: which native library Java gets. Cargo comes first, by whoever calls this, because it decides which packages it builds with which features.
set -euo pipefail
cd "$(dirname "$0")/.."

# One at a time: npm, for one, does not share a directory with itself.
exec 8>"${CARGO_TARGET_DIR:-target}/bindings.lock"
flock 8

make --silent -C ffi-c
bindings-python/build
bindings-node/build
scripts/maven.sh "$@" --untested package

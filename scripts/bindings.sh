#!/usr/bin/env bash
# Makes the bindings of every language, and the programs written in them, usable from this repository.
#
# Arguments go to scripts/maven.sh: which native library Java gets. Cargo comes first, by whoever calls this, because it decides
# which packages it builds with which features.
set -euo pipefail
target=$("$(dirname "$0")/target")
export CARGO_TARGET_DIR="$target"
cd "$(dirname "$0")/.."

# One at a time: npm, for one, does not share a directory with itself.
mkdir -p "$target"
exec 8>"$target/bindings.lock"
flock 8

make --silent -C ffi-c
bindings-python/build
bindings-node/build
scripts/maven.sh "$@" --untested package

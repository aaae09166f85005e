#!/usr/bin/env bash
# Builds what the tests use: the whole workspace in cargo's dev profile, with the operations for tests, and the packages of every
# language from that.
#
#   scripts/build.sh                     libraries and programs
#   scripts/build.sh --tests FILE        the tests of the workspace and the simulation, too; FILE lists the tests for
#                                        scripts/cargo_tests.py
#   scripts/build.sh --optimised-java …  with the library for Java that users get, instead of the one of the dev profile
#
# One set of features for all: a part of the workspace alone would get other ones, and everything below it be built again.
set -euo pipefail
cd "$(dirname "$0")/.."

programs='' java=--dev-library
while [ $# -gt 0 ]; do
  case $1 in
  --tests)
    programs=${2:?"build: --tests needs a file"}
    shift
    ;;
  --optimised-java) java='' ;;
  *)
    echo "build: unknown option $1; there are --tests FILE and --optimised-java" >&2
    exit 2
    ;;
  esac
  shift
done

cargo build --quiet --workspace --bins --lib
if [ -n "$programs" ]; then
  scripts/cargo_tests.py --build "$programs"
  tests/sim/play --build
fi
scripts/bindings.sh $java

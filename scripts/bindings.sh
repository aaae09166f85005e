#!/usr/bin/env bash
# Makes the bindings of every language, and the programs written in them, usable from this repository.
#
#   scripts/bindings.sh              all of them
#   scripts/bindings.sh --available  without those whose tools are missing; who calls it says which those are
#
# Cargo comes first, by whoever calls this, because it decides which packages it builds with which features.
set -euo pipefail
cd "$(dirname "$0")/.."

available() { # Whether these tools are there, where that may be a question.
  [ "$only_available" = no ] && return
  local tool
  for tool; do command -v "$tool" >/dev/null || return 1; done
}

case ${1:-} in
"") only_available=no ;;
--available) only_available=yes ;;
*)
  echo "bindings: unknown option $1; there is only --available" >&2
  exit 2
  ;;
esac

# The demo, which is who takes what is available, needs one program in C, and nothing that speaks JSON.
if [ "$only_available" = yes ]; then make --silent -C ffi-c contender; else make --silent -C ffi-c; fi
bindings-python/build
if available node npm; then bindings-node/build; fi
if available javac mvn; then scripts/maven.sh --untested package; fi

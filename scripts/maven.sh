#!/usr/bin/env bash
# Builds the native library and runs Maven on the Java modules:
# scripts/maven.sh [--verbose] [--without-library] [--untested] <goal>… [option]…
#
# --without-library leaves the native library as it is, or out, for those who load another one (-Dleasehold.native.path).
# --untested leaves the tests out, for those who want what is built: they need servers and minutes, and `make test` runs them.
# Maven looks at nothing but its local repository first, and asks the network only if something is missing there. It prints
# what went wrong, and what tests say; --verbose shows the rest. The JDK is that of JAVA_HOME or of the PATH: 17 or newer,
# though what it builds runs from 17 on.
set -euo pipefail
cd "$(dirname "$0")/.."

options=(--quiet)
if [ "${1:-}" = --verbose ]; then
  options=()
  shift
fi
library=yes
if [ "${1:-}" = --without-library ]; then
  library=no
  shift
fi
if [ "${1:-}" = --untested ]; then
  options+=(-Dmaven.test.skip=true)
  shift
fi
if [ $# = 0 ]; then
  echo "usage: scripts/maven.sh [--verbose] [--without-library] [--untested] <goal>… [option]…" >&2
  exit 2
fi

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/java"
# One at a time: two builds of the same modules would write into the same directories.
exec 9>"$target/java/lock"
flock 9

if [ "$library" = yes ]; then
  cargo build --quiet --profile dist -p leasehold-java
  # Without what only a debugger reads: it is four fifths of the file.
  for built in "$target"/dist/libleasehold_java.{so,dylib}; do
    stripped=$target/java/${built##*/}
    if [ -f "$built" ] && [ ! "$stripped" -nt "$built" ]; then
      strip -S -x -o "$stripped" "$built"
    fi
  done
fi

# What Maven says offline when it lacks a file, or only the description of one: then a plugin comes without its libraries.
something_missing='in offline mode|has not been downloaded from it before|no dependency information available|PluginContainerException'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  # Even without colours it prints the sequence that ends them.
  (cd bindings-java && mvn "${options[@]}" -Dstyle.color=never "$@" 2>&1) | sed 's/\x1b\[[0-9;]*m//g' | sed '/^$/d'
}
status=0
run --offline "$@" >"$log" 2>&1 || status=$?
if [ "$status" != 0 ] && grep -qE "$something_missing" "$log"; then
  echo "maven: something is missing in the local repository; fetching it" >&2
  status=0
  run "$@" || status=$?
else
  cat "$log"
fi
exit "$status"

#!/usr/bin/env bash
# Builds the native library and runs Maven on the Java modules:
# scripts/maven.sh [--verbose] [--without-library | --dev-library | --portable] [--untested] <goal>… [option]…
#
# --without-library leaves the native library as it is, or out, for those who load another one (-Dleasehold.native.path).
# --dev-library takes the one that cargo has built in its dev profile: for tests, as the one for users takes minutes to optimise.
# --portable links the one for users by zig, which it gets from PyPI: so that it runs with glibc 2.28 and newer, whatever this
# machine has. For what is published.
# --untested leaves the tests out, for those who want what is built: they need servers and minutes, and `make test` runs them.
# Maven looks at nothing but its local repository first, and asks the network only if something is missing there. It prints
# what went wrong, and what tests say; --verbose shows the rest. The JDK is that of JAVA_HOME or of the PATH: 17 or newer,
# though what it builds runs from 17 on.
set -euo pipefail
target=$("$(dirname "$0")/target")
export CARGO_TARGET_DIR="$target"
cd "$(dirname "$0")/.."

options=(--quiet)
library=dist linked=()
while [[ ${1:-} == --* ]]; do
  case $1 in
  --verbose) options=("${options[@]:1}") ;;
  --without-library) library=none ;;
  --dev-library) library=debug ;;
  --portable) linked=(-C linker="$PWD/scripts/zig-cc" -C linker-features=-lld) ;;
  --untested) options+=(-Dmaven.test.skip=true) ;;
  *)
    echo "maven: unknown option $1" >&2
    exit 2
    ;;
  esac
  shift
done
if [ $# = 0 ]; then
  echo "usage: scripts/maven.sh [--verbose] [--without-library | --dev-library | --portable] [--untested] <goal>… [option]…" >&2
  exit 2
fi

mkdir -p "$target/java"
# One at a time: two builds of the same modules would write into the same directories.
exec 9>"$target/java/lock"
flock 9

# The modules look in the usual place, where cargo need not have been told to build.
options+=(-Dleasehold.native.built="$(realpath "$target")/java")
# What it is built for, as io.leasehold.NativeLoader calls it.
case $(uname -s) in Darwin) system=macos ;; *) system=$(uname -s | tr '[:upper:]' '[:lower:]') ;; esac
case $(uname -m) in arm64) processor=aarch64 ;; amd64) processor=x86_64 ;; *) processor=$(uname -m) ;; esac
if [ "$system" = linux ] && (ldd --version 2>&1 || true) | grep -qi musl; then processor=$processor-musl; fi
options+=(-Dleasehold.native.platform="$system-$processor")
if [ "$library" = dist ]; then
  cargo rustc --quiet --profile dist -p leasehold-java --lib -- ${linked[@]+"${linked[@]}"}
  if [ ${#linked[@]} -gt 0 ]; then
    newest=$(objdump -T "$target/dist/libleasehold_java.so" | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
    if [ "$(printf '%s\n' "$newest" 2.28 | sort -V | tail -n 1)" != 2.28 ]; then
      echo "maven: the native library needs glibc $newest, and is to run with 2.28" >&2
      exit 1
    fi
  fi
fi
if [ "$library" != none ]; then
  mkdir -p "$target/java/$library"
  for built in "$target/$library"/libleasehold_java.{so,dylib}; do
    [ -f "$built" ] || continue
    # Without what only a debugger reads: it is four fifths of the file.
    stripped=$target/java/$library/${built##*/}
    [ "$stripped" -nt "$built" ] || strip -S -x -o "$stripped" "$built"
    # Maven packs anew what has changed, and no more.
    cmp -s "$stripped" "$target/java/${built##*/}" || cp "$stripped" "$target/java/${built##*/}"
  done
fi

# What Maven says offline when it lacks a file, or only the description of one: then a plugin comes without its libraries.
something_missing='in offline mode|has not been downloaded from it before|no dependency information available|PluginContainerException'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  # Even without colours it prints the sequence that ends them.
  (cd bindings-java && mvn "${options[@]}" "-Dleasehold.target=$target" -Dstyle.color=never "$@" 2>&1) | sed 's/\x1b\[[0-9;]*m//g' | sed '/^$/d'
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

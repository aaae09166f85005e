#!/usr/bin/env bash
# Builds the demo and the contender of every language whose tools are here, and plays it; arguments go to the demo.
#
# A language that cannot be built is left out, which is said in one line; its log stays. `make demo` calls this after
# `scripts/setup.sh demo`, which says which tools are missing.
set -euo pipefail
target=$("$(dirname "$0")/target")
export CARGO_TARGET_DIR="$target"
cd "$(dirname "$0")/.."
. scripts/lib/things.sh
. scripts/lib/progress.sh
. scripts/lib/debian.sh

logs=$target/demo
# What the user asked for, of what concerns us: only some languages, or only a word of help.
wanted=" rust c python node java "
only_help=no
arguments=("$@")
for ((i = 0; i < $#; i++)); do
  case ${arguments[i]} in
  --languages) wanted=" ${arguments[i + 1]:-} " ;;
  --languages=*) wanted=" ${arguments[i]#*=} " ;;
  -h | --help) only_help=yes ;;
  esac
done
wanted=${wanted//,/ }

build_rust() {
  local packages=(-p leasehold-demo -p leasehold-etcd -p leasehold-ffi-c -p leasehold-python -p leasehold-node)
  cargo build "${packages[@]}" -p leasehold-java
}
build_c() { make --silent -C ffi-c contender; }
build_python() { bindings-python/build; }
build_node() { bindings-node/build debug; }
# With the library that cargo has built for all of them; the jar of users has one that takes minutes to optimise.
build_java() { scripts/maven.sh --without-library --untested package -pl ../tests/demo/contenders/java -am; }
build_etcd() { "$target/debug/leasehold-etcd" --build-only any; }

# What a log says of its failure, in a line: the first that says what, not only that there is something.
reason_in() {
  local said line
  said=$(sed -E 's/\x1b\[[0-9;]*[A-Za-z]//g; s/^(\[ERROR\] *)+//; s/ +$//' "$1" | grep -iE 'error|fail|cannot|could not|not found') || true
  line=$(grep -vE '(^|:)$' <<<"$said" | head -n 1 | cut -c 1-140) || true
  echo "${line:-$(tail -n 1 "$1" | cut -c 1-140)}"
}

# The languages to be built, after Rust: wanted, and with tools.
languages=()
if [ "$only_help" = no ]; then
  for language in "${demo_languages[@]}"; do
    [[ $wanted == *" $language "* ]] && has_language "$language" && languages+=("$language")
  done
fi
steps=$((${#languages[@]} + 2))
step=0
build() {
  step=$((step + 1))
  long "demo: [$step/$steps] $2" "$logs/$1.log" "build_$1"
}

mkdir -p "$logs"
# One at a time: npm, for one, does not share a directory with itself.
exec 8>"$target/bindings.lock"
flock --nonblock 8 || { echo "demo: another build is going on here; waiting for it" >&2 && flock 8; }
if ! build rust "building the core in Rust, and the demo"; then
  echo "demo: the core could not be built; the end of ${logs#"$PWD"/}/rust.log:" >&2
  tail -n 40 "$logs/rust.log" >&2
  exit 1
fi
available=rust
for language in ${languages[@]+"${languages[@]}"}; do
  if build "$language" "building for ${language_names[$language]}"; then
    available+=,$language
  else
    echo "demo: without ${language_names[$language]}, which could not be built: $(reason_in "$logs/$language.log") (${logs#"$PWD"/}/$language.log)" >&2
  fi
done
if [ "$only_help" = no ] && ! build etcd "getting an etcd"; then
  # A Debian that has one helps where Go, or what it downloads, does not.
  if ! unpack_debian_etcd || ! build_etcd >>"$logs/etcd.log" 2>&1; then
    echo "demo: there is no etcd, and it could not be built; the end of ${logs#"$PWD"/}/etcd.log:" >&2
    tail -n 12 "$logs/etcd.log" >&2
    echo "demo: $(advice_of etcd)" >&2
    exit 1
  fi
fi
exec 8>&-
exec "$target/debug/leasehold-demo" --available "$available" "$@"

#!/usr/bin/env bash
# Gets what a machine needs to build, demonstrate or test leasehold. Quiet where nothing is to be done.
#
#   scripts/setup.sh build     a Rust toolchain, a C compiler for its linker, protoc, Node, Python, a JDK and Maven
#   scripts/setup.sh demo      the same, and an etcd or a way to build one
#   scripts/setup.sh sample    the same, and Redis and nginx for the samples
#   scripts/setup.sh test      the same, and what only the tests use
#   scripts/setup.sh --check   looks at all of it, changes nothing (`make doctor`)
#
# Needs a network only where something is missing. Never starts or changes a service of the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

need=${1:?"usage: scripts/setup.sh build|demo|sample|test|--check"}
case $need in
build | demo | sample | test | --check) ;;
*)
  echo "setup: unknown part $need; use build, demo, sample, test or --check" >&2
  exit 2
  ;;
esac

msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# Debian's etcd 3.4 is unpacked here, not installed: its package would start a service.
debian_etcd=.cache/debian-etcd
# The same for the Redis and the nginx of the flash-sale sample.
debian_sale=.cache/debian-sale
missing=0

# --- what is there ---------------------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }
version() { "$@" 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1 || true; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

has_rust() { have cargo && at_least "$(version rustc --version)" "$msrv"; }
has_rust_tools() { cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1; }
has_etcd() { [ -n "${LEASEHOLD_ETCD:-}" ] || have etcd || have go || [ -x "$debian_etcd/usr/bin/etcd" ]; }
is_etcd_3_4() { [[ $(version "$1" --version) == 3.4.* ]]; }
has_etcd_3_4() { { have etcd && is_etcd_3_4 etcd; } || [ -x "$debian_etcd/usr/bin/etcd" ]; }

has_redis_and_nginx() {
  { have redis-server && have nginx; } ||
    { [ -x "$debian_sale/usr/bin/redis-server" ] && [ -x "$debian_sale/usr/sbin/nginx" ]; }
}

# --- how to get it ---------------------------------------------------------------------------------------------------

# Prints the prefix that makes a command run as root, or fails.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    echo ""
  elif have sudo && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

# Runs a command and shows what it printed only if it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { echo "$output" >&2 && return 1; }
}

# Refreshes the package lists, once a run.
apt_updated=no
apt_update() {
  local prefix
  [ "$apt_updated" = no ] || return 0
  prefix=$(root_prefix) || return 1
  quietly $prefix apt-get update && apt_updated=yes
}

apt_install() {
  local prefix
  have apt-get && prefix=$(root_prefix) || return 1
  echo "setup: installing $* with apt-get" >&2
  apt_update && quietly $prefix env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# unpack_debian <directory> <packages…>: downloads packages of Debian and unpacks them under .cache. Installs nothing.
unpack_debian() {
  local directory=$1 work status=0
  shift
  have apt-get && have dpkg-deb || return 1
  echo "setup: unpacking Debian's $* under $directory" >&2
  work=$(mktemp -d)
  download_debian "$work" "$@" || status=$?
  if [ "$status" = 0 ]; then
    mkdir -p "$(dirname "$directory")" && rm -rf "$directory" && mv "$work/root" "$directory" || status=$?
  fi
  rm -rf "$work"
  return "$status"
}

download_debian() {
  local work=$1 package
  shift
  # Not every machine has package lists yet, and not every list is fresh.
  (cd "$work" && apt-get download -qq "$@" 2>/dev/null) ||
    { apt_update && (cd "$work" && quietly apt-get download "$@"); } || return 1
  for package in "$work"/*.deb; do
    dpkg-deb -x "$package" "$work/root" || return 1
  done
}

# Not every Debian has a 3.4; another one is of no use here.
unpack_debian_etcd() {
  unpack_debian "$debian_etcd" etcd-server etcd-client || return 1
  is_etcd_3_4 "$debian_etcd/usr/bin/etcd" || { rm -rf "$debian_etcd" && return 1; }
}

# With the libraries that a machine without them would lack; tests/samples starts both as processes of its own.
unpack_debian_sale() {
  unpack_debian "$debian_sale" redis-server redis-tools liblzf1 libjemalloc2 libatomic1 nginx
}

# --- one line for each thing -----------------------------------------------------------------------------------------

# thing <required|optional> <name> <test> <install, or "none"> <how to get it>
thing() {
  local weight=$1 name=$2 test=$3 install=$4 advice=$5
  if $test; then
    [ "$need" != --check ] || echo "ok        $name"
    return
  fi
  if [ "$need" != --check ] && [ "$install" != none ] && $install && $test; then return; fi
  if [ "$weight" = required ]; then
    missing=$((missing + 1))
    echo "missing   $name: $advice" >&2
  else
    echo "optional  $name: $advice" >&2
  fi
}

wants() { # Whether this run is about one of these parts.
  [ "$need" = --check ] || [[ " $* " == *" $need "* ]]
}

has_cc() { have cc; }
# With its own include files: Debian has them in another package, which protobuf-compiler only recommends.
has_protoc() {
  have protoc || return 1
  local work status=0
  work=$(mktemp -d)
  printf 'syntax = "proto3";\nimport "google/protobuf/descriptor.proto";\n' >"$work/probe.proto"
  protoc --proto_path="$work" --descriptor_set_out=/dev/null "$work/probe.proto" 2>/dev/null || status=$?
  rm -rf "$work"
  return "$status"
}
has_jansson() { echo '#include <jansson.h>' | cc -E - >/dev/null 2>&1; }
has_cxx() { have c++; }
has_valgrind() { have valgrind; }
has_cmake() { have cmake && have pkg-config; }
has_go() { have go; }
has_node() { have node && have npm && at_least "$(version node --version)" 20.11; }
# A runtime alone has no compiler.
has_jdk() { have javac && at_least "$(version javac -version)" 17; }
has_maven() { have mvn; }
has_strip() { have strip; }
has_python() { have python3 && at_least "$(version python3 --version)" 3.10; }

thing required "Rust $msrv or newer" has_rust none \
  "install it with rustup (rustup.rs), or run: rustup update stable"
thing required "cargo clippy and cargo fmt" has_rust_tools "quietly rustup component add clippy rustfmt" \
  "run: rustup component add clippy rustfmt"
thing required "C compiler (cc)" has_cc "apt_install gcc libc6-dev" \
  "install gcc (Debian: apt-get install gcc libc6-dev, which make does itself if it may)"
thing required "protoc and its include files" has_protoc "apt_install protobuf-compiler libprotobuf-dev" \
  "install it (Debian: apt-get install protobuf-compiler libprotobuf-dev, which make does itself if it may)"
if wants build sample test; then
  thing required "Node 20.11 or newer, with npm" has_node none \
    "install it (nodejs.org, or your distribution's nodejs and npm if they are new enough)"
  thing required "JDK 17 or newer" has_jdk "apt_install openjdk-17-jdk-headless" \
    "install one (Debian: apt-get install openjdk-17-jdk-headless, which make does itself if it may)"
  thing required "Maven" has_maven "apt_install maven" \
    "install it (Debian: apt-get install maven, which make does itself if it may)"
  thing optional "jansson" has_jansson "apt_install libjansson-dev" \
    "install it (Debian: apt-get install libjansson-dev); without it the programs in C that speak JSON are not built"
  thing required "strip" has_strip "apt_install binutils" \
    "install binutils (Debian: apt-get install binutils, which make does itself if it may)"
fi
thing required "Python 3.10 or newer" has_python "apt_install python3" \
  "install it (python.org; Debian 12: apt-get install python3, which make does itself if it may)"
if wants demo sample test; then
  thing required "etcd, or Go to build one" has_etcd unpack_debian_etcd \
    "install Go (go.dev), put an etcd on the PATH, or name one in LEASEHOLD_ETCD"
fi
if wants test; then
  thing required "Go" has_go none \
    "install it (go.dev); the tests build etcd 3.5, 3.6 and 3.7 with it, once"
  thing optional "C++ compiler (c++)" has_cxx "apt_install g++" \
    "install g++ (Debian: apt-get install g++); without it leasehold.hpp is not tested"
  thing optional "valgrind" has_valgrind "apt_install valgrind" \
    "install it (Debian: apt-get install valgrind); without it the C library is not tested for leaks by it"
  thing optional "CMake and pkg-config" has_cmake "apt_install cmake pkg-config make" \
    "install them (Debian: apt-get install cmake pkg-config); without them finding the installed C library is not tested"
  thing optional "etcd 3.4" has_etcd_3_4 unpack_debian_etcd \
    "make test unpacks the package of Debian 12, where there is one; without it the tests on 3.4 are skipped and counted so"
fi

if wants test sample; then
  thing required "Redis and nginx" has_redis_and_nginx unpack_debian_sale \
    "put redis-server and nginx on the PATH; on Debian make unpacks their packages, and starts no service"
fi

if [ "$missing" -gt 0 ]; then
  echo "setup: $missing required thing(s) missing, see above" >&2
  exit 1
fi

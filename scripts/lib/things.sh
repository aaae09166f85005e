# The things that the project is built and tested with, which target needs which, how to tell whether one is there, and
# where it comes from. scripts/setup.sh and scripts/demo.sh read it; both start in the root of the repository.

# Only these are ever written elsewhere: the least Rust is in Cargo.toml, the least Go in what builds etcd.
least_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
least_go=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' tools/etcd/servers/3.7/go.mod)
least_node=20.11
least_jdk=17
least_python=3.10

# Debian's etcd 3.4, and the Redis and the nginx of the flash-sale sample, are unpacked here, not installed: their packages
# would start services.
debian_etcd=.cache/debian-etcd
debian_sale=.cache/debian-sale

# --- which target needs what -----------------------------------------------------------------------------------------

# <target>: what it needs | what it can do without, in part
core="rust cc protoc"
all_languages="node jdk maven binutils python"
targets=(
  "demo:        $core etcd | python node jdk maven"
  "sample:      $core jdk maven binutils python etcd sale"
  "test:        $core rustfmt clippy $all_languages venv go sale patch | jansson cxx valgrind cmake loops abidiff etcd34"
  "build:       $core $all_languages | jansson cxx"
  "install-c:   $core binutils"
  "dist-c:      $core binutils python venv"
  "lint:        $core rustfmt clippy node python venv go"
  "fmt:         rust rustfmt node python venv"
  "gen:         $core node"
  "docs:        rust cc python"
  "bench:       $core node python go | jdk maven binutils"
  "conformance: $core $all_languages etcd | jansson"
  "sim:         $core"
  "search:      $core"
  "fuzz:        $core cxx"
  "teeth:       $core python patch"
  "fresh:       rust node go roots"
  "wheel:       $core python venv"
  "pack:        $core node python venv binutils"
)

# The things of a target: `things_of demo required`, `things_of demo optional`.
things_of() {
  local line
  for line in "${targets[@]}"; do
    [ "${line%%:*}" = "$1" ] || continue
    line=${line#*:}
    case $2 in
    required) echo ${line%%|*} ;;
    optional) [[ $line != *\|* ]] || echo ${line##*|} ;;
    esac
    return
  done
  return 1
}

target_names() { printf '%s\n' "${targets[@]%%:*}"; }

# The targets that need a thing; in brackets those that can do without.
targets_of() {
  local target found=()
  for target in $(target_names); do
    if [[ " $(things_of "$target" required) " == *" $1 "* ]]; then found+=("$target"); fi
    if [[ " $(things_of "$target" optional) " == *" $1 "* ]]; then found+=("($target)"); fi
  done
  echo "${found[*]}"
}

# Those that the demo can do without; Rust and C are always there.
demo_languages=(c python node java)
declare -A language_names=([c]=C [python]=Python [node]=Node [java]=Java)
declare -A language_things=([c]="" [python]="python" [node]="node" [java]="jdk maven")

has_language() {
  local thing
  for thing in ${language_things[$1]}; do has "$thing" || return 1; done
}

# --- where a thing comes from ----------------------------------------------------------------------------------------

# <thing>: its name | Debian's packages, `or` between choices | what else to do
# After `>=` or `>>` stands the least version, where some, or most, releases of Debian have an older one.
declare -A about=(
  [rust]="Rust $least_rust or newer | | install it with rustup (rustup.rs), or run: rustup update stable"
  [rustfmt]="cargo fmt | | run: rustup component add rustfmt"
  [clippy]="cargo clippy | | run: rustup component add clippy"
  [cc]="C compiler (cc) | gcc libc6-dev | install gcc, and the C library's headers"
  [binutils]="binutils (ar, ld, nm, objcopy, strip) | binutils | install binutils"
  [protoc]="protoc and its include files | protobuf-compiler libprotobuf-dev | install it (protobuf.dev)"
  [node]="Node $least_node or newer with npm | nodejs>>$least_node npm or nodejs>>$least_node | install it (nodejs.org)"
  [jdk]="JDK $least_jdk or newer | default-jdk-headless>=$least_jdk or openjdk-25-jdk-headless or openjdk-21-jdk-headless or openjdk-17-jdk-headless | install one (adoptium.net), and name it in JAVA_HOME if it is not the one of java on the PATH"
  [maven]="Maven | maven | install it (maven.apache.org)"
  [python]="Python $least_python or newer | python3>=$least_python | install it (python.org), and name it in PYTHON if it is not python3 on the PATH"
  [venv]="Python's venv with pip | python3-venv>=$least_python | install it for your Python"
  [go]="Go $least_go or newer | golang-go>>$least_go | install it (go.dev); the tests build etcd 3.5, 3.6 and 3.7 with it, once"
  [etcd]="etcd, or Go $least_go or newer to build one | | install Go (go.dev), put an etcd on the PATH, or name one in LEASEHOLD_ETCD"
  [roots]="mmdebstrap, and what enters its roots (unshare, setpriv, ip, git, tar) | mmdebstrap util-linux iproute2 git tar | install them; roots are made and entered as root"
  [patch]="patch | patch | install it"
  [jansson]="jansson | libjansson-dev | install it; without it the programs in C that speak JSON are not built"
  [cxx]="C++ compiler (c++) | g++ | install one; without it leasehold.hpp is not tried"
  [valgrind]="valgrind | valgrind | install it; without it the C library is not tested for leaks by it"
  [cmake]="CMake and pkg-config | cmake pkg-config | install them; without them finding the installed C library is not tested"
  [loops]="libuv, GLib and Asio, for C and C++ | libuv1-dev libglib2.0-dev libasio-dev pkg-config | install them; without them the examples with their loops are not tried"
  [abidiff]="abidiff | abigail-tools | install it (libabigail); without it only our own list compares the C library with the one before"
  [etcd34]="etcd 3.4 | | make test unpacks the package of Debian 12, where there is one; without it the tests on 3.4 are skipped and counted so"
  [sale]="Redis and nginx | | put redis-server and nginx on the PATH; on Debian make unpacks their packages, and starts no service"
)

# field <thing> <1|2|3>
field() {
  local text
  IFS='|' read -ra text <<<"${about[$1]}"
  text=${text[$2 - 1]}
  text=${text#"${text%%[! ]*}"}
  echo "${text%"${text##*[! ]}"}"
}
name_of() { field "$1" 1; }
packages_of() { field "$1" 2; }
advice_of() { field "$1" 3; }

# What make does to get a thing that is in no list of packages to install. Fails where it can do nothing.
get() {
  case $1 in
  rustfmt | clippy) have rustup && rustup component add "$1" ;;
  # Where there is a Go that is new enough, nothing is to be done: it builds an etcd.
  etcd) unpack_debian_etcd ;;
  etcd34)
    has_lists || apt_update
    [[ $(candidate etcd-server) == 3.4.* ]] && unpack_debian_etcd
    ;;
  # With the libraries that a machine without them would lack; tests/samples starts both as processes of its own.
  sale) unpack_debian "$debian_sale" redis-server redis-tools liblzf1 libjemalloc2 libatomic1 nginx ;;
  *) return 1 ;;
  esac
}

# Another release than 3.4 serves the demo, but is no 3.4.
unpack_debian_etcd() { unpack_debian "$debian_etcd" etcd-server etcd-client; }

# --- whether it is there ---------------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }
version() { "$@" 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1 || true; }
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# has <thing>
has() { "has_$1"; }

has_rust() { have cargo && at_least "$(version rustc --version)" "$least_rust"; }
has_rustfmt() { cargo fmt --version >/dev/null 2>&1; }
has_clippy() { cargo clippy --version >/dev/null 2>&1; }
# With what it needs to make a program.
has_cc() {
  have cc || return 1
  local work status=0
  work=$(mktemp -d)
  cc -x c - -o "$work/probe" 2>/dev/null <<<$'#include <stdio.h>\nint main(void) { return puts("") < 0; }' || status=$?
  rm -rf "$work"
  return "$status"
}
has_binutils() { have ar && have ld && have nm && have objcopy && have strip; }
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
has_node() { have node && have npm && at_least "$(version node --version)" "$least_node"; }
# The one that Maven takes, which is that of `java`. A runtime alone has no compiler.
has_jdk() {
  local home
  home=$(java_home) && [ -n "$home" ] && [ -x "$home/bin/java" ] && [ -x "$home/bin/javac" ] &&
    at_least "$("$home/bin/javac" -version 2>&1 | grep -oE '[0-9]+(\.[0-9]+)*' | head -n 1)" "$least_jdk"
}
java_home() {
  if [ -n "${JAVA_HOME:-}" ]; then
    echo "$JAVA_HOME"
  else
    have java && java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
  fi
}
has_maven() { have mvn; }
has_python() { have "${PYTHON:-python3}" && at_least "$(version "${PYTHON:-python3}" --version)" "$least_python"; }
has_venv() { "${PYTHON:-python3}" -c 'import ensurepip, venv' >/dev/null 2>&1; }
has_go() { have go && at_least "$(go env GOVERSION 2>/dev/null | sed 's/^go//')" "$least_go"; }
has_etcd() {
  if [ -n "${LEASEHOLD_ETCD:-}" ]; then
    [ -x "$LEASEHOLD_ETCD" ]
  else
    have etcd || has_go || [ -x "$debian_etcd/usr/bin/etcd" ]
  fi
}
has_etcd34() {
  { have etcd && [[ $(version etcd --version) == 3.4.* ]]; } ||
    { [ -x "$debian_etcd/usr/bin/etcd" ] && [[ $(version "$debian_etcd/usr/bin/etcd" --version) == 3.4.* ]]; }
}
has_roots() {
  local tool
  for tool in mmdebstrap unshare setpriv ip git tar; do have "$tool" || return 1; done
}
has_patch() { have patch; }
has_jansson() { cc -E -include jansson.h -x c /dev/null >/dev/null 2>&1; }
has_cxx() { have c++; }
has_valgrind() { have valgrind; }
has_cmake() { have cmake && have pkg-config; }
has_loops() { pkg-config --exists libuv glib-2.0 2>/dev/null && c++ -E -include asio.hpp -x c++ /dev/null >/dev/null 2>&1; }
has_abidiff() { have abidiff; }
has_sale() {
  { have redis-server && have nginx; } ||
    { [ -x "$debian_sale/usr/bin/redis-server" ] && [ -x "$debian_sale/usr/sbin/nginx" ]; }
}

# What is there instead, for those who wonder why it is not enough: "Node 18.19.0".
instead_of() {
  local found=
  case $1 in
  rust) have rustc && found="Rust $(version rustc --version)" ;;
  node)
    if have node && at_least "$(version node --version)" "$least_node"; then
      found="Node without npm"
    elif have node; then
      found="Node $(version node --version)"
    fi
    ;;
  jdk)
    local home
    home=$(java_home) && [ -n "$home" ] && if [ ! -x "$home/bin/java" ]; then
      found="nothing in JAVA_HOME ($home)"
    elif [ -x "$home/bin/javac" ]; then
      found="JDK $("$home/bin/javac" -version 2>&1 | grep -oE '[0-9]+(\.[0-9]+)*' | head -n 1)"
    else
      found="a Java runtime without a compiler ($home)"
    fi
    ;;
  python) have "${PYTHON:-python3}" && found="Python $(version "${PYTHON:-python3}" --version)" ;;
  go) have go && found="Go $(go env GOVERSION 2>/dev/null | sed 's/^go//')" ;;
  etcd) if [ -n "${LEASEHOLD_ETCD:-}" ]; then found="no program in LEASEHOLD_ETCD ($LEASEHOLD_ETCD)"; elif have go; then instead_of go; fi ;;
  protoc) have protoc && found="protoc without its include files" ;;
  cc) have cc && found="one that cannot make a program" ;;
  esac
  [ -z "$found" ] || echo "$found"
}

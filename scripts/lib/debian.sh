# Debian's packages: which there are, and how to get them, as root or by a sudo that asks nothing. For scripts that source it,
# with things.sh and progress.sh.

# What apt said.
apt_log=$(scripts/target)/setup/apt.log
# No machine hangs for ever; one that installs its own updates just now is waited for.
apt_options=(-o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o DPkg::Lock::Timeout=120)

# Prints the prefix that makes a command run as root, or fails. With the proxies of the environment, which sudo would drop.
root_prefix() {
  local proxies=() name
  if [ "$(id -u)" = 0 ]; then
    echo ""
  elif have sudo && sudo -n true 2>/dev/null; then
    for name in http_proxy https_proxy no_proxy; do
      [ -z "${!name:-}" ] || proxies+=("$name=${!name}")
    done
    echo "sudo -n env DEBIAN_FRONTEND=noninteractive ${proxies[*]}"
  else
    return 1
  fi
}

# Who is not root has package lists of his own, which are enough to look and to download.
own_lists=$PWD/.cache/apt
use_own_lists() {
  mkdir -p "$own_lists/lists/partial" "$own_lists/cache/archives/partial"
  [[ ${apt_options[*]} == *"$own_lists"* ]] ||
    apt_options+=(-o "Dir::State::Lists=$own_lists/lists" -o "Dir::Cache=$own_lists/cache")
}

# Refreshes the package lists, once a run.
apt_updated=no
apt_update() {
  local prefix
  have apt-get || return 1
  [ "$apt_updated" = no ] || return 0
  if ! prefix=$(root_prefix); then
    prefix=
    use_own_lists
  fi
  # shellcheck disable=SC2086
  long "setup: Debian's package lists" "$apt_log" $prefix apt-get "${apt_options[@]}" update || return 1
  apt_updated=yes
}

# Whether apt knows of packages that are not installed: many containers come without lists. With --machine, whether it does so
# without lists of our own.
has_lists() {
  local options=("${apt_options[@]}")
  [ "${1:-}" != --machine ] || options=()
  [[ $(LC_ALL=C apt-cache "${options[@]}" policy base-files 2>/dev/null) == *://* ]]
}

# The version of a package that would be installed; nothing if there is none, or no list.
candidate() {
  LC_ALL=C apt-cache "${apt_options[@]}" policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -vxF '(none)' || true
}

# Whether apt can give a package, written as in things.sh: name, name>=version or name>>version.
is_available() {
  local name=${1%%>*} version
  version=$(candidate "$name")
  [ -n "$version" ] || return 1
  [ "$name" != "$1" ] || return 0
  # Without the epoch, and what Debian made of it. Java's package has one more number in front ("2:1.17-74").
  version=${version#*:}
  version=${version%%[-+~]*}
  [ "$name" != default-jdk-headless ] || version=${version#1.}
  at_least "$version" "${1#*>[>=]}"
}

# The packages that give a thing here: the first choice that apt can give whole. Where apt knows nothing, the first that will
# likely do. Fails if there is none.
debian_packages() {
  local choices choice word
  have apt-get || return 1
  mapfile -t choices < <(packages_of "$1" | sed 's/ or /\n/g')
  for choice in "${choices[@]}"; do
    [ -n "$choice" ] || continue
    if has_lists; then
      for word in $choice; do
        is_available "$word" || continue 2
      done
    elif [[ $choice == *'>>'* ]]; then
      continue
    fi
    # shellcheck disable=SC2001
    sed 's/>[^ ]*//g' <<<"$choice"
    return
  done
  return 1
}

# Installs packages. Fails where we may not, and shows what apt said where it could not.
apt_install() {
  local prefix
  prefix=$(root_prefix) || return 1
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive long "setup: installing $*" "$apt_log" \
    $prefix apt-get "${apt_options[@]}" install -y --no-install-recommends "$@" || { apt_says && return 1; }
}

apt_says() {
  echo "setup: apt-get failed; the end of ${apt_log#"$PWD"/}:" >&2
  tail -n 6 "$apt_log" >&2
}

# unpack_debian <directory> <packages…>: downloads packages of Debian and unpacks them under .cache. Installs nothing.
unpack_debian() {
  local directory=$1 work status=0 what="setup: unpacking Debian's $2 and what belongs to it under $1"
  shift
  have apt-get && have dpkg-deb || return 1
  work=$(mktemp -d)
  # Not every machine has package lists yet, and not every list is fresh.
  long "$what" "$apt_log" download_debian "$work" "$@" || {
    rm -f "$work"/*.deb
    apt_update && long "$what" "$apt_log" download_debian "$work" "$@"
  } || { status=1 && apt_says; }
  if [ "$status" = 0 ]; then
    mkdir -p "$(dirname "$directory")" && rm -rf "$directory" && mv "$work/root" "$directory" || status=$?
  fi
  rm -rf "$work"
  return "$status"
}

download_debian() {
  local work=$1 package
  shift
  (cd "$work" && apt-get "${apt_options[@]}" download "$@") || return 1
  for package in "$work"/*.deb; do
    dpkg-deb -x "$package" "$work/root" || return 1
  done
}

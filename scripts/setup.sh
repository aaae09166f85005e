#!/usr/bin/env bash
# Gets what a machine needs for a target of make, as far as it may: Debian's packages as root or by sudo, components of rustup,
# and what is only unpacked under .cache. What is still missing is said, and how to get it. Quiet where nothing is to be done.
#
#   scripts/setup.sh <target>   demo, test, build, …: scripts/lib/things.sh says what each needs
#   scripts/setup.sh --check    looks at all of it, changes nothing (`make doctor`)
#
# Needs a network only where something is missing. Never starts or changes a service of the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/things.sh
. scripts/lib/progress.sh
. scripts/lib/debian.sh

# The things of these that are not there.
missing_of() {
  local thing
  for thing; do has "$thing" || echo "$thing"; done
}

# "Node 20.11 or newer (here: Node 18.19.0): install it (nodejs.org)"
line_of() {
  local there packages
  there=$(instead_of "$1") || true
  packages=$(debian_packages "$1") || packages=
  echo "$(name_of "$1")${there:+ (here: $there)}: $(advice_of "$1")${packages:+; Debian: $packages}"
}

# One line for all of Debian's packages that these things are missing.
apt_line() {
  local thing packages=() sudo=
  for thing; do
    # shellcheck disable=SC2207
    packages+=($(debian_packages "$thing" || true))
  done
  [ ${#packages[@]} -gt 0 ] || return 1
  if [ "$(id -u)" != 0 ]; then sudo="sudo "; fi
  has_lists --machine || echo -n "${sudo}apt-get update && "
  echo "${sudo}apt-get install $(printf '%s\n' "${packages[@]}" | sort -u | xargs)"
}

why_not_root() {
  if ! have apt-get; then
    echo "there is no apt-get"
  elif have sudo; then
    echo "you are not root, and sudo asks for a password"
  else
    echo "you are not root, and there is no sudo"
  fi
}

# Gets what it can of these things.
get_all() {
  local thing packages=() later=()
  for thing; do
    if [ -n "$(packages_of "$thing")" ]; then later+=("$thing"); else get "$thing" || true; fi
  done
  [ ${#later[@]} -gt 0 ] && have apt-get || return 0
  # To install needs fresh lists; to say which packages there are, any.
  if root_prefix >/dev/null; then
    apt_update || apt_says
  elif ! has_lists; then
    use_own_lists
    has_lists || apt_update || true
  fi
  root_prefix >/dev/null || return 0
  for thing in "${later[@]}"; do
    # shellcheck disable=SC2207
    packages+=($(debian_packages "$thing" || true))
  done
  [ ${#packages[@]} = 0 ] || apt_install "${packages[@]}" || true
}

# Whether a directory can be written to, or made.
may_write() {
  local place=$1
  while [ ! -e "$place" ]; do place=$(dirname "$place"); done
  [ -d "$place" ] && [ -w "$place" ]
}

# What was built knows where the checkout stood, and cargo does not notice that it was moved: tells it.
tell_of_move() {
  local note=$1/checkout moved
  if [ -e "$1/debug" ] && [ "$(cat "$note" 2>/dev/null)" != "$PWD" ]; then
    # Of somebody else's sources nobody may change the time.
    mapfile -t moved < <(grep -rlF 'env!("CARGO_MANIFEST_DIR")' --include='*.rs' core tests tools 2>/dev/null)
    [ ${#moved[@]} = 0 ] || touch "${moved[@]}" 2>/dev/null || return 0
  fi
  mkdir -p "$1" && echo "$PWD" >"$note"
}

set_up() {
  local target=$1 required optional missing thing line built
  built=$(scripts/target)
  if ! may_write "$built"; then
    echo "setup: $built, where cargo builds, cannot be written to: take a checkout of your own, or name a directory of yours in CARGO_TARGET_DIR" >&2
    return 1
  fi
  tell_of_move "$built"
  required=$(things_of "$target" required)
  optional=$(things_of "$target" optional)
  # What the demo can do without are whole languages, which nobody wants to be given unasked.
  [ "$target" != demo ] || optional=
  # shellcheck disable=SC2046,SC2086
  missing=$(missing_of $required $optional | xargs)
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086
  get_all $missing
  # shellcheck disable=SC2086
  missing=$(missing_of $missing | xargs)
  [ -n "$missing" ] || return 0

  for thing in $missing; do
    if [[ " $required " == *" $thing "* ]]; then
      echo "missing   $(line_of "$thing")"
    else
      echo "optional  $(line_of "$thing")"
    fi
  done >&2
  # shellcheck disable=SC2086
  if ! root_prefix >/dev/null && line=$(apt_line $missing); then
    echo "setup: make does not install Debian's packages here, as $(why_not_root). This line does:" >&2
    echo "    $line" >&2
  fi
  # shellcheck disable=SC2086
  if [ -n "$(comm -12 <(tr ' ' '\n' <<<"$missing" | sort) <(tr ' ' '\n' <<<"$required" | sort))" ]; then
    echo "setup: 'make $target' cannot go on without what is missing; see above" >&2
    return 1
  fi
}

# A line for each language that the demo does without, and one for all that would change it.
say_left_out() {
  local language thing there lacking missing=() line
  for language in "${demo_languages[@]}"; do
    # shellcheck disable=SC2086
    lacking=$(missing_of ${language_things[$language]} | xargs)
    [ -n "$lacking" ] || continue
    line=
    for thing in $lacking; do
      missing+=("$thing")
      there=$(instead_of "$thing") || true
      line+="${line:+, and }$(name_of "$thing")${there:+ (here: $there)}"
    done
    echo "demo: without ${language_names[$language]}, which needs $line" >&2
  done
  if [ ${#missing[@]} -gt 0 ]; then
    line=$(apt_line "${missing[@]}") || line="make doctor says how to get what is missing"
    echo "demo: for the others: $line" >&2
  fi
}

doctor() {
  local thing target required optional lacking missing=() line status=0
  declare -A is_there
  for thing in $(printf '%s\n' "${targets[@]#*:}" | tr -d '|' | xargs -n 1 | awk '!seen[$0]++'); do
    if has "$thing"; then
      is_there[$thing]=yes
      echo "ok        $(name_of "$thing")"
    else
      is_there[$thing]=no
      missing+=("$thing")
      echo "missing   $(line_of "$thing")"
    fi
  done
  echo
  for target in $(target_names); do
    required=() optional=()
    for thing in $(things_of "$target" required); do
      [ "${is_there[$thing]}" = yes ] || required+=("$(name_of "$thing")")
    done
    for thing in $(things_of "$target" optional); do
      [ "${is_there[$thing]}" = yes ] || optional+=("$(name_of "$thing")")
    done
    lacking=$(printf '%s, ' "${required[@]}")
    if [ ${#required[@]} -gt 0 ]; then
      status=1
      printf '%-12s lacks %s\n' "$target" "${lacking%, }"
    else
      lacking=$(printf '%s, ' "${optional[@]}")
      printf '%-12s ready%s\n' "$target" "$([ ${#optional[@]} = 0 ] || echo "; leaves something out without ${lacking%, }")"
    fi
  done
  if line=$(apt_line "${missing[@]}"); then
    printf '\nAll that Debian has of what is missing:\n    %s\n' "$line"
  fi
  return "$status"
}

case ${1:-} in
--check) doctor ;;
*)
  if [ $# != 1 ] || ! things_of "$1" required >/dev/null; then
    echo "usage: scripts/setup.sh <target>, or --check; the targets are: $(target_names | xargs)" >&2
    exit 2
  fi
  set_up "$1"
  [ "$1" != demo ] || say_left_out
  ;;
esac

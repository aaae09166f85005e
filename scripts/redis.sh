#!/bin/sh
# Runs redis-server with these arguments: the one on the PATH, or Debian's, which scripts/setup.sh unpacks under .cache.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
unpacked=$root/.cache/debian-sale/usr
if ! command -v redis-server >/dev/null; then
  [ -x "$unpacked/bin/redis-server" ] || "$root/scripts/setup.sh" sample >&2
  export PATH="$PATH:$unpacked/bin"
  export LD_LIBRARY_PATH="$unpacked/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec redis-server "$@"

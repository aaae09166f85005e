# Shows what goes on while something takes long, with or without a terminal. For scripts that source it.

# long <title> <log> <command…>
#
# Runs the command with its output in the log. Nothing is said of what is done within two seconds; then who waits is told what
# is going on and where the log is, how long it takes already and what it said last, and in the end how long it took. The exit
# code is that of the command; nothing of the log is shown.
long() {
  local title=$1 log=$2 status=0 ticker started=$SECONDS
  shift 2
  mkdir -p "$(dirname "$log")"
  : >"$log"
  tell_of "$title" "$log" &
  ticker=$!
  # An interrupt ends the command, then bash, then what tells of it.
  trap 'kill "$ticker" 2>/dev/null' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  trap - EXIT INT TERM
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  [ ! -t 2 ] || printf '\r\033[K' >&2
  if [ $((SECONDS - started)) -ge 2 ]; then
    if [ "$status" = 0 ]; then
      echo "$title: done, $((SECONDS - started)) s" >&2
    else
      echo "$title: failed after $((SECONDS - started)) s" >&2
    fi
  fi
  return "$status"
}

# What `long` says meanwhile: every second on a terminal, in one line that is written over; else every ten, and after a minute
# every thirty. Seconds are looked up, not counted: on a busy machine a sleep of one takes longer.
tell_of() {
  local title=$1 log=$2 started=$SECONDS seconds due=10 is_said='' last
  # Whoever reads our output is not kept waiting by a sleep that is left over.
  while sleep 1 >/dev/null 2>&1; do
    kill -0 "$$" 2>/dev/null || return 0
    seconds=$((SECONDS - started))
    [ "$seconds" -ge 2 ] || continue
    if [ -z "$is_said" ]; then
      say_anew "$title … (log: ${log#"$PWD"/})"
      is_said=1
    fi
    [ -t 2 ] || [ "$seconds" -ge "$due" ] || continue
    due=$((seconds + (seconds >= 60 ? 30 : 10)))
    # The last line that is not empty; of a progress bar its last state; without control sequences.
    last=$(tail -c 2000 "$log" | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g; s/^ *//' | grep . | tail -n 1 | cut -c 1-60) || last=
    if [ -t 2 ]; then
      printf '\r\033[K%s: %d s%s' "$title" "$seconds" "${last:+  $last}" >&2
    else
      echo "$title: $seconds s${last:+  $last}" >&2
    fi
  done
}

say_anew() {
  [ ! -t 2 ] || printf '\r\033[K' >&2
  echo "$1" >&2
}

# What the front door says and how: steps with a live line, and failures. Sourced by ./workbook.
#
# Progress goes to stderr, so that stdout holds what the command itself prints.

# The step that runs now; stopped with us when the user presses Ctrl-C.
step_pid=""

stop_step() {
  if [[ -n $step_pid ]]; then
    kill -TERM -- "-$step_pid" 2>/dev/null
    wait "$step_pid" 2>/dev/null
  fi
  printf '\nStopped.\n' >&2
  exit 130
}

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE: the user asked for something that cannot be done.
die() {
  say "workbook: $*"
  exit 2
}

# One line, rewritten in place: what runs, for how long, and the last line of its log.
show_live_line() {
  local title=$1 seconds=$2 log=$3 last width
  width=$(stty size 2>/dev/null </dev/tty | cut -d' ' -f2)
  # Some terminals do not know their width and say 0.
  ((${width:-0} >= 40)) || width=80
  last=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r\n\t')
  local line="$title  ${seconds} s  $last"
  printf '\r\033[K%s' "${line:0:width - 1}" >&2
}

# Waits for the step, telling that it is under way: nothing for what takes less than a second.
watch_step() {
  local title=$1 log=$2 live=$3 start=$SECONDS announced=no polls=0
  while kill -0 "$step_pid" 2>/dev/null; do
    sleep 0.05
    polls=$((polls + 1))
    if [[ $live == yes ]] && ((polls >= 10 && polls % 4 == 0)); then
      show_live_line "$title" $((SECONDS - start)) "$log"
    elif [[ $live == no && $announced == no ]] && ((polls >= 20)); then
      say "$title ..."
      announced=yes
    fi
  done
  [[ $live == yes ]] && printf '\r\033[K' >&2
}

report_failed_step() {
  local title=$1 log=$2 advice=$3 seconds=$4 code=$5
  say ""
  say "FAILED: $title (after $seconds s, exit code $code)"
  if grep -q -m 1 'error:' "$log"; then
    say "The first errors in $log:"
    grep -m 3 'error:' "$log" | cut -c1-300 | sed 's/^/    /' >&2
  fi
  say "The last lines of $log:"
  tail -n 20 "$log" | cut -c1-300 | sed 's/^/    /' >&2
  say "What to do: $advice"
}

# run_step NAME TITLE ADVICE COMMAND...
# Runs COMMAND with its output in build/logs/NAME.log. Returns 0, or tells the failure and exits 1.
run_step() {
  local log="build/logs/$1.log" title=$2 advice=$3 live=no start=$SECONDS code
  shift 3
  mkdir -p build/logs
  [[ -t 2 ]] && live=yes
  set -m # a process group of its own, so that Ctrl-C can end all of it
  "$@" >"$log" 2>&1 </dev/null &
  step_pid=$!
  set +m
  watch_step "$title" "$log" "$live"
  wait "$step_pid"
  code=$?
  step_pid=""
  if ((code != 0)); then
    report_failed_step "$title" "$log" "$advice" $((SECONDS - start)) "$code"
    exit 1
  fi
  if ((SECONDS - start >= 2)); then
    say "$title: done in $((SECONDS - start)) s"
  fi
}

# What the front door says and how: steps with a live line, and failures. Sourced by ./workbook.
#
# Progress goes to stderr, so that stdout holds what the command itself prints.

# The step that runs now; stopped with us when the user presses Ctrl-C.
step_pid=""

# abandon_step CODE: ends the step, if there is one, and with it the command.
abandon_step() {
  if [[ -n $step_pid ]]; then
    kill -TERM -- "-$step_pid" 2>/dev/null
    wait "$step_pid" 2>/dev/null
  fi
  exit "$1"
}

stop_step() {
  printf '\nStopped.\n' >&2
  abandon_step 130
}

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE: the user asked for something that cannot be done.
die() {
  say "workbook: $*"
  exit 2
}

# What is known of a step: the build's own count of what is done, and the time that the rest takes at that
# pace; else the last line of its log.
step_progress() {
  local log=$1 seconds=$2 last
  last=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r\n\t')
  if [[ $last =~ ^\[([0-9]+)/([0-9]+)\] ]] && ((BASH_REMATCH[1] > 0)); then
    local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    echo "$done of $all done, about $((seconds * (all - done) / done)) s left"
  else
    echo "${last:0:100}"
  fi
}

# One line, rewritten in place: what runs, for how long, and how far it is.
show_live_line() {
  local title=$1 seconds=$2 log=$3 width line
  width=$(stty size 2>/dev/null </dev/tty | cut -d' ' -f2)
  # Some terminals do not know their width and say 0.
  ((${width:-0} >= 40)) || width=80
  line="$title  ${seconds} s  $(step_progress "$log" "$seconds")"
  printf '\r\033[K%s' "${line:0:width - 1}" >&2
}

# Waits for the step, telling that it is under way: nothing for what takes less than a second; where no
# terminal is, a line every ten seconds.
watch_step() {
  local title=$1 log=$2 live=$3 start=$4 polls=0 said=-10
  while kill -0 "$step_pid" 2>/dev/null; do
    sleep 0.05
    polls=$((polls + 1))
    if [[ $live == yes ]] && ((polls >= 10 && polls % 4 == 0)); then
      show_live_line "$title" $((SECONDS - start)) "$log"
    elif [[ $live == no ]] && ((polls >= 20 && SECONDS - start >= said + 10)); then
      say "$title ... $(step_progress "$log" $((SECONDS - start)))"
      said=$((SECONDS - start))
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

# begin_step NAME TITLE ADVICE COMMAND...
# Starts COMMAND with its output in build/logs/NAME.log.
begin_step() {
  step_log="build/logs/$1.log" step_title=$2 step_advice=$3 step_start=$SECONDS
  shift 3
  mkdir -p build/logs
  set -m # a process group of its own, so that Ctrl-C can end all of it
  "$@" >"$step_log" 2>&1 </dev/null &
  step_pid=$!
  set +m
}

# Waits for the step that was begun. Returns 0, or tells the failure and exits 1.
end_step() {
  local live=no code
  [[ -t 2 ]] && live=yes
  watch_step "$step_title" "$step_log" "$live" "$step_start"
  wait "$step_pid"
  code=$?
  step_pid=""
  if ((code != 0)); then
    report_failed_step "$step_title" "$step_log" "$step_advice" $((SECONDS - step_start)) "$code"
    exit 1
  fi
  if ((SECONDS - step_start >= 2)); then
    say "$step_title: done in $((SECONDS - step_start)) s"
  fi
}

# run_step NAME TITLE ADVICE COMMAND...: both.
run_step() {
  begin_step "$@"
  end_step
}

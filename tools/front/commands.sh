# One function per command of the front door. Sourced by ./workbook, which sets called_from (where
# the user stands) and checkout (where the workbook is).
# shellcheck disable=SC2154

readonly build_advice="the errors above name file and line; the whole log has the rest."

command_help() { cat tools/front/help.txt; }

command_setup() {
  need_switches MISTAKES
  need_packages build mpi venv docs
  need_venv
  build_targets release build "$build_advice" all
  say "Ready. Next: ./workbook run"
}

# run without a chapter. With flags: train with the newest that trains. Without: train with the first at
# once, while the others are built; then compare all techniques, and confirm a plan for this machine.
run_everything() {
  local first newest targets=() chapter name
  first=$(list_training_chapters | head -n 1)
  newest=$(newest_training_chapter) || exit
  while read -r chapter; do
    while read -r name; do
      targets+=("${name}_main")
    done < <(list_programs "$chapter")
  done < <(list_training_chapters)
  asks_for_device "$@" && need_switches DEVICES
  if (($# == 0)); then
    build_targets release build-first "$build_advice" "${first}_main"
    begin_build 19 release build "$build_advice" "${targets[@]}"
    "build/release/bin/$first" || abandon_step $?
    say ""
    end_build
  else
    build_targets release build "$build_advice" "${targets[@]}"
    (cd "$called_from" && exec "$checkout/build/release/bin/$newest" "$@") || exit
  fi
  "$(system_python)" tools/compare.py build/release/bin || exit
  local program=build/release/bin/$newest
  if "$program" --help 2>/dev/null | grep -q -- "--profile-machine"; then
    exec "$(system_python)" tools/plan_here.py "$program"
  fi
  exit 0
}

command_run() {
  if (($# == 0)) || [[ $1 == -* ]]; then
    run_everything "$@"
  fi
  local chapter name suffix="" mpi=no ranks="" flags=()
  name=$(program_of "$1") || exit
  chapter=$(chapter_of "${1%%/*}")
  shift
  while (($# > 0)); do
    case $1 in
      --mpi)
        mpi=yes
        if [[ ${2:-} =~ ^[0-9]+$ ]]; then
          ranks=$2
          ((ranks > 0)) || die "--mpi $ranks: there must be at least 1 rank"
          shift
        fi
        ;;
      --mine) suffix=_mine ;;
      *) flags+=("$1") ;;
    esac
    shift
  done
  local advice=$build_advice
  [[ -n $suffix ]] && advice="your exercises must compile first: ./workbook check ${chapter%%_*}"
  [[ $mpi == yes ]] && need_packages mpi
  is_laboratory "$chapter" && need_switches LADDERS
  asks_for_device "${flags[@]}" && need_switches DEVICES
  build_targets release "build-$name$suffix" "$advice" "${name}_main$suffix"
  local program="$checkout/build/release/bin/$name$suffix"
  cd "$called_from" || exit 1 # the flags may hold paths relative to it
  if [[ $mpi == yes ]]; then
    exec_with_mpi "$ranks" "$program" "${flags[@]}"
  fi
  exec "$program" "${flags[@]}"
}

# The flags of `test`: sets preset, core, slow and ctest_arguments of its caller.
parse_test_arguments() {
  while (($# > 0)); do
    case $1 in
      --preset)
        (($# > 1)) || die "--preset needs a name: release, dev or tsan"
        preset=$2
        shift
        ;;
      --core) core=yes ;;
      --slow) slow=yes ;;
      --peers) peers=yes ;;
      *) ctest_arguments+=("$1") ;;
    esac
    shift
  done
}

# What the flags of `test` leave of all tests, as ctest's arguments.
select_tests() {
  local labels=""
  # What is not C++ of ours behaves the same under a sanitizer.
  [[ $preset == release ]] || labels='unit|ranks|gpu|exercise'
  [[ $slow == no ]] || labels=slow
  [[ -z $labels ]] || ctest_arguments+=(--label-regex "^($labels)\$")
  if [[ $peers == yes ]]; then
    ctest_arguments+=(--label-regex '^peers$')
    return
  fi
  [[ $slow == yes ]] || ctest_arguments+=(--label-exclude '^(slow|peers)$')
  [[ $core == no ]] || ctest_arguments+=(--tests-regex '^test\.common\.')
}

command_test() {
  local preset=release core=no slow=no peers=no ctest_arguments=() targets=(all) untouched
  parse_test_arguments "$@"
  need_switches TESTS
  case $preset in
    release)
      need_switches MISTAKES
      need_packages build mpi venv docs
      untouched=$("$(system_python)" tools/exercises untouched-targets) || exit
      # shellcheck disable=SC2206  # one target a line
      targets+=(mistakes $untouched)
      ;;
    dev | tsan) need_packages build mpi venv ;;
    *) die "there is no preset '$preset'; use release, dev or tsan" ;;
  esac
  [[ $core == no ]] || targets=(core_tests)
  if [[ $peers == yes ]]; then
    targets=("$(newest_training_chapter)_main")
    need_peers
  else
    need_venv
  fi
  select_tests
  build_targets "$preset" "build-$preset" "$build_advice" "${targets[@]}"
  # ./workbook status reads the report.
  # One more than there are cores: some tests wait, for a lock or for a time-out.
  exec ctest --test-dir "build/$preset" --parallel "$(($(nproc) + 1))" --output-on-failure \
    --output-junit tests.xml "${ctest_arguments[@]}"
}

# Token ids of a text, by any tokenizer.json.
command_tokenize() {
  need_python
  # What is wrong with the arguments, and help, come before anything is installed.
  if [[ " $* " == *" -h "* || " $* " == *" --help "* ]]; then
    exec "$(system_python)" tools/tokenize_text.py --help
  fi
  "$(system_python)" tools/tokenize_text.py --only-look "$@" || exit
  need_packages build venv
  need_tokenizers
  cd "$called_from" || exit 1 # the arguments may hold paths relative to it
  exec "$checkout/build/tokenizers/bin/python3" "$checkout/tools/tokenize_text.py" "$@"
}

# Runs a command of tools/exercises, when what it names as its targets is built, with a live line:
#   exercise_command_with_targets NAMES COMMAND [ARGUMENTS]
exercise_command_with_targets() {
  need_python
  local python targets names=$1 command=$2
  shift 2
  python=$(system_python)
  targets=$("$python" tools/exercises "$names" "$@") || exit
  if [[ -n $targets ]]; then
    # shellcheck disable=SC2086  # one target a line
    build_targets release "build-$command" "$build_advice" $targets
  fi
  WORKBOOK_CALLED_FROM=$called_from exec "$python" tools/exercises "$command" "$@"
}

# Builds all but the learner's files; what fails after that is the learner's.
command_check() {
  need_switches TESTS
  [[ ${1:-} == *-+([0-9]) ]] && need_switches MISTAKES # a bug that is mended
  exercise_command_with_targets pending-targets check "$@"
}

# Builds the program without a fault; the broken one is the learner's.
command_mend() {
  need_switches MISTAKES
  exercise_command_with_targets mend-targets mend "$@"
}

# Builds a bug's program with and without it, and the tests that find it.
command_bug() {
  need_switches MISTAKES
  exercise_command_with_targets bug-targets bug "$@"
}

# hint, diff, status, reset, answer and assign need Python only.
exercise_command() {
  need_python
  WORKBOOK_CALLED_FROM=$called_from exec "$(system_python)" tools/exercises "$@"
}

command_doctor() {
  [[ -n $(system_python) ]] || die "there is no python3 yet: ./workbook setup installs it, and what else is missing"
  exec "$(system_python)" tools/doctor.py "$@"
}

command_compare_runs() {
  need_python
  local tool=$PWD/tools/compare_runs.py
  cd "$called_from" || exit 1
  exec "$(system_python)" "$tool" "$@"
}

command_notebook() {
  (($# > 0)) || die "which chapter? For example: ./workbook notebook 01"
  local wanted chapter
  wanted=$(notebook_of "$1") || exit
  chapter=${wanted%%/*}
  shift
  need_switches TESTS
  need_venv
  # What its cells link; the programs that they run build themselves.
  build_targets release "build-$chapter" "$build_advice" "$chapter"
  [[ ${1:-} != --page ]] || exec build/venv/bin/python3 tools/notebook/run.py "$wanted"
  exec build/venv/bin/python3 tools/notebook/open.py "$wanted" "$@"
}

command_bench() {
  local name="" source targets=() build_only=no
  if [[ ${1:-} == --build-only ]]; then
    build_only=yes
    shift
  fi
  if (($# > 0)) && [[ $1 != -* ]]; then
    name=$1
    shift
  fi
  for source in bench/bench_*"$name"*.cpp; do
    [[ -f $source ]] && targets+=("$(basename "$source" .cpp)")
  done
  need_switches TESTS
  ((${#targets[@]} > 0)) || die "no benchmark's name contains '$name'; see bench/"
  build_targets release build-bench "$build_advice" "${targets[@]}"
  [[ $build_only == no ]] || exit 0
  local target status=0
  for target in "${targets[@]}"; do
    say "== $target"
    (cd "$called_from" && exec "$checkout/build/release/bin/$target" "$@") || status=1
  done
  exit "$status"
}

command_docs() {
  need_packages build docs
  lock_build
  need_configured release
  unlock_build
  "$(system_python)" tools/build_docs.py build/release/generated/Doxyfile || exit
  say "The reference: $PWD/build/docs/index.html"
}

command_format() {
  need_venv
  exec "$(system_python)" tools/format.py --write
}

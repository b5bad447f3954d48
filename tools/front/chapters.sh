# Which chapters there are, and how to start their executables. Sourced by ./workbook.

list_chapters() {
  local folder
  for folder in chapters/[0-9][0-9]_*/; do
    [[ -d $folder ]] && basename "$folder"
  done
}

# chapter_of NN: the folder's name for 1, 01 or 01_memory.
chapter_of() {
  local wanted=$1 name
  if [[ $wanted =~ ^[0-9]$ ]]; then
    wanted="0$wanted"
  fi
  while read -r name; do
    if [[ $name == "$wanted" || ${name%%_*} == "$wanted" ]]; then
      echo "$name"
      return
    fi
  done < <(list_chapters)
  die "there is no chapter '$1'; the chapters are: $(list_chapters | tr '\n' ' ')"
}

# The folders of a chapter that have a notebook of their own.
list_rooms() {
  local folder name
  for folder in chapters/"$1"/*/; do
    name=$(basename "$folder")
    [[ -f $folder$name.md ]] && echo "$name"
  done
}

# notebook_of NN or NN/ROOM: "04_zero" or "04_zero/offload".
notebook_of() {
  local chapter room=""
  [[ $1 == */* ]] && room=${1#*/}
  chapter=$(chapter_of "${1%%/*}") || exit
  if [[ -z $room ]]; then
    echo "$chapter"
  elif [[ -f chapters/$chapter/$room/$room.md ]]; then
    echo "$chapter/$room"
  else
    die "$chapter has no notebook '$room'; beside its own there are: $(list_rooms "$chapter" | tr '\n' ' ')"
  fi
}

# program_of NN or NN/ROOM: the executable "04_zero", or "03_parameter_server" of a folder with a main.cpp.
program_of() {
  local chapter room=""
  [[ $1 == */* ]] && room=${1#*/}
  chapter=$(chapter_of "${1%%/*}") || exit
  [[ -f chapters/$chapter/$room/main.cpp ]] || die "chapter $chapter${room:+/$room} has no executable"
  echo "${room:+${chapter%%_*}_}${room:-$chapter}"
}

# All executables of a chapter.
list_programs() {
  local main
  [[ -f chapters/$1/main.cpp ]] && echo "$1"
  for main in chapters/"$1"/*/main.cpp; do
    [[ -f $main ]] && program_of "$1/$(basename "$(dirname "$main")")"
  done
  return 0
}

# The chapters whose executables train: they have rows to compare (tools/compare.py).
list_training_chapters() {
  local name
  while read -r name; do
    [[ -f chapters/$name/main.cpp && -f chapters/$name/compare.json ]] && echo "$name"
  done < <(list_chapters)
}

# Whether a chapter's program does not train: it has all ladders of kernels (cmake/UltraChapter.cmake).
is_laboratory() { [[ ! -f chapters/$1/compare.json ]]; }

# Whether flags of a program ask for a device other than the CPU.
asks_for_device() {
  local flags=" $* "
  [[ $flags == *" --device "* || $flags == *" --device="* ]] &&
    [[ $flags != *" --device cpu "* && $flags != *" --device=cpu "* ]]
}

# The last chapter that trains.
newest_training_chapter() {
  local newest
  newest=$(list_training_chapters | tail -n 1)
  [[ -n $newest ]] || die "no chapter has an executable that trains yet"
  echo "$newest"
}

# The ranks that the flags ask for; 1 when the executable knows nothing of ranks.
ranks_for() {
  local program=$1 ranks
  shift
  ranks=$("$program" --print-ranks "$@" 2>/dev/null) || ranks=1
  [[ $ranks =~ ^[1-9][0-9]*$ ]] || ranks=1
  echo "$ranks"
}

# exec_with_mpi RANKS PROGRAM FLAG...: replaces this process by the program under mpirun. RANKS may be
# empty: as many as the flags ask for, and for one of them no mpirun.
exec_with_mpi() {
  local ranks=$1 program=$2
  shift 2
  if [[ -z $ranks ]]; then
    ranks=$(ranks_for "$program" "$@")
    if ((ranks == 1)); then
      exec "$program" "$@"
    fi
  fi
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # More ranks than cores is normal here. The rest of MPI's settings is the program's own.
  exec mpirun -n "$ranks" --oversubscribe --bind-to none "$program" "$@"
}

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

# The last chapter that has an executable.
newest_chapter() {
  local name newest=""
  while read -r name; do
    [[ -f chapters/$name/main.cpp ]] && newest=$name
  done < <(list_chapters)
  [[ -n $newest ]] || die "no chapter has an executable yet"
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

# Replaces this process by the program under mpirun, or by the plain program for one rank.
exec_with_mpi() {
  local program=$1 ranks
  shift
  ranks=$(ranks_for "$program" "$@")
  if ((ranks == 1)); then
    exec "$program" "$@"
  fi
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # More ranks than cores is normal here: no binding, idle ranks yield, and no single-copy
  # transfers, which containers forbid.
  exec mpirun -n "$ranks" --oversubscribe --bind-to none \
    --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 "$program" "$@"
}

# What has to be there before a command can work: packages, the Python environment, a configured
# and built tree. Each part is quick when nothing is to do. Sourced by ./workbook.

# Set when packages were installed: what CMake did not find before may be there now.
packages_changed=no

# The packages of the groups, one a line.
packages_of() {
  local group
  for group in "$@"; do
    awk -v group="$group" '$1 == group { print $2 }' tools/packages.txt
  done
}

# Those of the given packages that are not installed.
missing_packages() {
  local installed
  # dpkg-query complains about the unknown ones and lists the others.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }')
  printf '%s\n' "$@" | grep -vxF -e "${installed:-none}" || true
}

# Runs a command as root, without questions on the terminal.
as_root() {
  if ((EUID == 0)); then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# A fresh machine has no package lists, and old lists name files that are gone: refresh and retry.
apt_install() {
  as_root apt-get install --yes --no-install-recommends "$@" ||
    { as_root apt-get update && as_root apt-get install --yes --no-install-recommends "$@"; }
}

install_packages() {
  local by_hand="apt-get update && apt-get install --no-install-recommends $*"
  say "These packages are missing and will be installed: $*"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "there is no sudo here; run as root: $by_hand"
    say "sudo may ask for your password."
    sudo -v || die "packages cannot be installed without root rights; run as root: $by_hand"
  fi
  run_step apt-install "Installing packages" \
    "check the network, then try by hand, as root: $by_hand" apt_install "$@"
  packages_changed=yes
}

# need_packages GROUP...
need_packages() {
  local wanted missing
  mapfile -t wanted < <(packages_of "$@")
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null && return
    die "this is no Debian or Ubuntu; install what these packages hold, then try again:" \
      "${wanted[*]}"
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ((${#missing[@]} > 0)); then
    install_packages "${missing[@]}"
  fi
}

# The Python of the tools: the system's, whatever shadows it in PATH.
system_python() {
  if [[ -x /usr/bin/python3 ]]; then
    echo /usr/bin/python3
  else
    command -v python3 || true
  fi
}

need_python() {
  if [[ -z $(system_python) ]]; then
    need_packages build
  fi
}

requirement_files() {
  local file
  for file in tools/requirements.txt tools/notebook/requirements.txt; do
    [[ -f $file ]] && echo "$file"
  done
}

make_venv() {
  local python=$1 file arguments=()
  while read -r file; do
    arguments+=(--requirement "$file")
  done < <(requirement_files)
  rm -rf build/venv
  "$python" -m venv build/venv &&
    build/venv/bin/python3 -m pip install --disable-pip-version-check "${arguments[@]}"
}

# The stamp holds what the environment was made from, and where: it cannot be moved.
venv_stamp() {
  local files
  mapfile -t files < <(requirement_files)
  {
    cat "${files[@]}"
    "$(system_python)" --version
    pwd
  } | sha256sum
}

need_venv() {
  local stamp
  need_packages build venv
  stamp=$(venv_stamp)
  if [[ -x build/venv/bin/python3 && $(cat build/venv/stamp 2>/dev/null) == "$stamp" ]]; then
    return
  fi
  "$(system_python)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "the Python environment needs Python 3.11 or newer (Debian 12, Ubuntu 24.04);" \
      "found $("$(system_python)" --version)"
  run_step venv "Making the Python environment build/venv" \
    "check the network (pip downloads the packages of tools/requirements.txt), then try again." \
    make_venv "$(system_python)"
  echo "$stamp" >build/venv/stamp
}

# One command at a time may build; another waits (a notebook's cells call us too).
lock_build() {
  command -v flock >/dev/null || return 0
  mkdir -p build
  exec 9>build/.lock
  if ! flock --nonblock 9; then
    say "Another workbook command is building; waiting for it."
    flock 9
  fi
}

unlock_build() {
  exec 9>&-
}

configure_stamp() {
  {
    cat CMakePresets.json
    echo "${WORKBOOK_CMAKE_ARGS:-}"
    pwd
  } | sha256sum
}

# What the command needs of the build beyond the programs of the chapters that train (CMakeLists.txt).
switches=()

# need_switches SWITCH...: DEVICES, LADDERS, TESTS or MISTAKES, with what each of them needs itself.
need_switches() {
  local switch
  for switch in "$@"; do
    case $switch in
      MISTAKES) need_switches TESTS ;;
      TESTS) need_switches DEVICES LADDERS ;;
    esac
    switches+=("$switch")
  done
}

# Arguments for CMake that turn on what is needed and still off in a build folder, one a line. What is on
# stays on: nothing is built twice.
missing_switches() {
  local folder=$1 switch
  for switch in "${switches[@]}"; do
    grep -qxF "ULTRA_$switch:BOOL=ON" "$folder/CMakeCache.txt" 2>/dev/null || echo "-DULTRA_$switch=ON"
  done
}

# need_configured PRESET
need_configured() {
  local preset=$1 folder="build/$1" stamp turn_on=()
  need_packages build
  stamp=$(configure_stamp)
  mapfile -t turn_on < <(missing_switches "$folder")
  if [[ -f $folder/build.ninja && $packages_changed == no ]] && ((${#turn_on[@]} == 0)) &&
    [[ $(cat "$folder/.configured" 2>/dev/null) == "$stamp" ]]; then
    return
  fi
  if [[ -f $folder/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$folder/CMakeCache.txt"; then
    # CMake refuses a folder that was configured for a checkout elsewhere.
    rm -rf "$folder"
  fi
  # shellcheck disable=SC2086  # several arguments in one variable
  run_step "configure-$preset" "Configuring ($preset)" \
    "see the log; to start over: rm -rf $folder" \
    cmake --preset "$preset" "${turn_on[@]}" ${WORKBOOK_CMAKE_ARGS:-}
  echo "$stamp" >"$folder/.configured"
}

# Programs that are started from here on take OpenBLAS's kernels for this processor, although it knows it not.
use_processors_kernels() {
  local kernels=${OPENBLAS_CORETYPE:-}
  [[ -n $kernels ]] || kernels=$("$(system_python)" tools/blas_kernels.py)
  [[ -z $kernels ]] || export OPENBLAS_CORETYPE=$kernels
}

# begin_build NICENESS PRESET NAME ADVICE TARGET...: starts a build under the lock; NAME is the log's. 19
# leaves the processor to what goes on meanwhile. end_build waits for it.
begin_build() {
  local niceness=$1 preset=$2 name=$3 advice=$4
  shift 4
  lock_build
  need_configured "$preset"
  use_processors_kernels
  begin_step "$name" "Building ($preset)" "$advice" nice -n "$niceness" \
    cmake --build "build/$preset" --parallel "${WORKBOOK_JOBS:-$(nproc)}" --target "$@"
}

end_build() {
  end_step
  unlock_build
}

# build_targets PRESET NAME ADVICE TARGET...: both.
build_targets() {
  begin_build 0 "$@"
  end_build
}

#!/usr/bin/env bash
# Runs ./workbook test where nothing is installed: in a fresh Debian 12, made by debootstrap, that has git and
# a shell, from a clone of the commit that is checked out here.
#
#   tests/bare_machine/run.sh [--user | --container] [--keep] FOLDER [COMMAND...]
#   tests/bare_machine/run.sh --mirror        where it would install from
#
#   --user        as a user who may use sudo, instead of as root
#   --container   in what the Containerfile's target `run` makes of a Debian that has not even git, step by
#                 step, with the commit as its context; COMMAND instead of the Containerfile's
#   --keep        go on with the machine that the last run has left, and its clone
#   COMMAND       instead of ./workbook test, in the clone
#
# Needs root, debootstrap and a network with Debian's packages and PyPI, as ./workbook itself. FOLDER keeps
# the Debian (base/, or image/ for --container) for the next run, the machine (machine/), and what was said
# (log). The machine's environment is HOME, PATH and what pip needs to know; all it starts ends with it.
set -euo pipefail

readonly checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly usage="usage: tests/bare_machine/run.sh [--user | --container] [--keep] FOLDER [COMMAND...]"

fail() {
  printf 'bare machine: %s\n' "$*" >&2
  exit 2
}

# The mirror that this machine installs from, whatever the form of its lists.
mirror() {
  local found
  found=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } |
    sed -nE 's/^(deb|URIs:)[[:space:]]+(\[[^]]*\][[:space:]]+)?([a-z]+:[^[:space:]]+\/debian)\/?([[:space:]].*)?$/\3/p')
  [[ -n $found ]] || fail "no mirror of Debian's in /etc/apt/sources.list or /etc/apt/sources.list.d"
  head -n 1 <<<"$found"
}

[[ ${1:-} != --mirror ]] || { mirror; exit; }

# shellcheck disable=SC2016  # expanded inside
as=root keep=no container=no place='$HOME/workbook'
while [[ ${1:-} == --* ]]; do
  case $1 in
    --user) as=learner ;;
    --container) container=yes ;;
    --keep) keep=yes ;;
    *) fail "there is no option $1; $usage" ;;
  esac
  shift
done
(($# > 0)) || fail "$usage"
((EUID == 0)) || fail "a machine of its own takes root's rights: run this with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is not installed: apt-get install debootstrap"
mkdir -p "$1"
readonly folder=$(cd "$1" && pwd)
shift
command=("$@")
((${#command[@]} > 0)) || [[ $container == yes ]] || command=(./workbook test)
readonly machine=$folder/machine
base=$folder/base with=("--include=git,ca-certificates,sudo")
[[ $container == no ]] || base=$folder/image with=()
readonly base with

make_base() {
  [[ -f $base.done ]] && return
  rm -rf "$base"
  debootstrap --variant=minbase "${with[@]}" bookworm "$base" "$(mirror)"
  touch "$base.done"
}

# A copy of the base, with what this machine's network asks for.
copy_base() {
  rm -rf "$machine"
  cp -a --reflink=auto "$base" "$machine"
  cp -L /etc/resolv.conf "$machine/etc/resolv.conf"
  printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$machine/etc/hosts"
  [[ ! -f /etc/pip.conf ]] || cp -L /etc/pip.conf "$machine/etc/pip.conf"
}

copy_certificates() {
  cp -L /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/ca-certificates.crt"
}

# That, and a user who may become root.
make_machine() {
  copy_base
  copy_certificates
  chroot "$machine" useradd --create-home --shell /bin/bash learner
  echo 'learner ALL=(ALL) NOPASSWD: ALL' >"$machine/etc/sudoers.d/learner"
}

home() {
  [[ $as == root ]] && echo /root || echo /home/learner
}

clone() {
  git -c safe.directory='*' clone --quiet --no-hardlinks "$checkout" "$machine$(home)/workbook"
  git -c safe.directory='*' -C "$machine$(home)/workbook" log --oneline -1
  # Nothing here knows where it came from.
  git -C "$machine$(home)/workbook" remote remove origin
  chroot "$machine" chown -R "$as:" "$(home)/workbook"
}

# What pip was told by this machine's environment.
pip_settings() {
  local name
  for name in $(compgen -e PIP_ || true); do
    printf '%s=%s\n' "$name" "${!name}"
  done
}

# In namespaces of its own: mounts and processes of the machine end with it.
inside() {
  local settings=() before=()
  mapfile -t settings < <(pip_settings)
  [[ $as == root ]] || before=(setpriv --reuid "$as" --regid "$as" --init-groups)
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    machine=$1 home=$2; shift 2
    mount --make-rprivate /
    mount -t proc proc "$machine/proc"
    mount --rbind /sys "$machine/sys"
    mount --rbind /dev "$machine/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$machine/run"
    exec chroot "$machine" "$@"' bare-machine "$machine" "$(home)" \
    "${before[@]}" env -i HOME="$(home)" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${settings[@]}" bash -c "cd \"$place\" && exec \"\$@\"" workbook "$@"
}

# The Containerfile's first stage, an instruction a line.
instructions() {
  sed -e :a -e '/\\$/N; s/\\\n//; ta' "$checkout/Containerfile" | awk '/^FROM / { ++stage } stage == 1 && NF && !/^#/'
}

# COPY: from the commit, for whoever owns it.
copy_in() {
  local owner=root
  if [[ $1 == --chown=* ]]; then
    owner=${1#--chown=}
    shift
  fi
  local to=$2
  [[ $to == /* ]] || to=$place/$to
  if [[ $1 == . ]]; then
    git -c safe.directory='*' clone --quiet --no-hardlinks "$checkout" "$folder/context.new"
    git -C "$folder/context.new" remote remove origin
    cp -a "$folder/context.new/." "$machine$to"
    rm -rf "$folder/context.new"
  else
    cp "$checkout/$1" "$machine$to"
  fi
  chroot "$machine" chown -R "$owner:" "$to"
}

# Follows the instructions; the machine that stands is kept for --keep.
follow() {
  local instruction words
  while read -r instruction words; do
    printf '%s %s\n' "$instruction" "$words"
    case $instruction in
      FROM) [[ $words == "debian:12 AS run" ]] || fail "the Containerfile's first stage is not of debian:12" ;;
      COPY) # shellcheck disable=SC2086  # its words
        [[ $keep == yes ]] || copy_in $words ;;
      RUN) [[ $keep == yes ]] || inside sh -c "$words" </dev/null ;;
      USER) as=$words ;;
      WORKDIR)
        place=$words
        mkdir -p "$machine$place" ;;
      CMD) ((${#command[@]} > 0)) || mapfile -t command < <(tr -d '[],' <<<"$words" | xargs -n 1) ;;
      *) fail "tests/bare_machine/run.sh knows no instruction $instruction of a Containerfile" ;;
    esac
  done
}

make_base
if [[ $container == yes ]]; then
  place=/
  [[ $keep == yes ]] || copy_base
  follow < <(instructions)
  copy_certificates
elif [[ $keep == no ]]; then
  make_machine
  clone
fi
[[ -d $machine$(home)/workbook ]] || fail "there is no clone of $as's in $machine: run this without --keep first"
begin=$SECONDS status=0
inside "${command[@]}" > >(tee "$folder/log") 2>&1 < /dev/null || status=$?
printf 'As %s: %s: exit code %d after %d s\n' "$as" "${command[*]}" "$status" $((SECONDS - begin)) | tee -a "$folder/log"
exit "$status"

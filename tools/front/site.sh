# The site: what it needs beyond the book's tests, and how it is built. Sourced by ./workbook.
# shellcheck disable=SC2154

readonly wasm_versions=(-19 -20 -21 -18 -17 -16 "")

can_compile_figures() {
  build/venv/bin/python3 tools/site/wasm.py >/dev/null 2>&1
}

# The packages of the newest compiler for WebAssembly that this distribution has; or nothing.
wasm_packages() {
  local version
  for version in "${wasm_versions[@]}"; do
    if apt-cache show "libc++$version-dev-wasm32" >/dev/null 2>&1; then
      printf '%s\n' "clang$version" "lld$version" wasi-libc "libc++$version-dev-wasm32" \
        "libclang-rt$version-dev-wasm32"
      return
    fi
  done
}

# Installs those of the given packages that the distribution has; the site does without the others.
want_packages() {
  local what=$1 missing
  shift
  command -v dpkg-query >/dev/null || return 0
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0
  if ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
    say "SKIPPED: $what: this distribution has no packages ${missing[*]}"
    return 0
  fi
  (install_packages "${missing[@]}") || say "SKIPPED: $what: ${missing[*]} could not be installed"
}

need_figures() {
  local packages
  if can_compile_figures || ! command -v apt-cache >/dev/null; then
    return
  fi
  mapfile -t packages < <(wasm_packages)
  if ((${#packages[@]} == 0)); then
    say "SKIPPED: figures that compute: this distribution has no C++ library for WebAssembly"
    return
  fi
  want_packages "figures that compute" "${packages[@]}"
}

# What the texts' cells link, and the programs that they run.
site_targets() {
  local name
  while read -r name; do
    echo "$name"
    list_programs "$name" | sed 's/$/_main/'
  done < <(list_chapters)
}

command_site() {
  local check=no build=() targets
  while (($# > 0)); do
    case $1 in
      --check) check=yes ;;
      --stored | --no-figures) build+=("$1") ;;
      *) die "site takes --check, --stored and --no-figures; found '$1'" ;;
    esac
    shift
  done
  need_switches TESTS
  need_packages build mpi venv docs
  need_venv
  need_figures
  [[ $check == no ]] || want_packages "what needs a browser" chromium
  mapfile -t targets < <(site_targets)
  build_targets release build-site "$build_advice" "${targets[@]}"
  build/venv/bin/python3 tools/site build "${build[@]}" || exit
  if [[ $check == yes ]]; then
    exec build/venv/bin/python3 tools/site check --browser
  fi
}

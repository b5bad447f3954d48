# Python environments of their own, for what few need: the libraries that ./workbook test --peers
# compares with, and Hugging Face's tokenizers. Made when they are asked for. Sourced by ./workbook.

# With few retries: without a network this is to end soon.
pip_into() {
  local folder=$1
  shift
  "$folder/bin/python3" -m pip install --disable-pip-version-check --retries 1 --timeout 60 "$@"
}

# The builds for CPUs are a tenth as large; they are on PyTorch's own index only.
install_torch() {
  local version=torch==2.15.0
  pip_into "$1" "$version" --index-url https://download.pytorch.org/whl/cpu ||
    pip_into "$1" "$version"
}

make_peers() {
  rm -rf build/peers
  "$(system_python)" -m venv build/peers &&
    pip_into build/peers --requirement tests/peers/requirements.txt &&
    install_torch build/peers
}

peers_stamp() {
  {
    cat tests/peers/requirements.txt tools/front/peers.sh
    "$(system_python)" --version
    pwd
  } | sha256sum
}

# Makes build/peers. Where that fails the tests that need it say so, and are skipped.
need_peers() {
  local stamp
  need_packages build venv
  stamp=$(peers_stamp)
  if [[ $(cat build/peers/stamp 2>/dev/null) == "$stamp" ]]; then
    return
  fi
  mkdir -p build
  rm -f build/peers.reason build/peers/stamp
  # In a shell of its own: a step that fails ends its shell.
  if (trap stop_step INT TERM; run_step peers "Making the Python environment build/peers" \
    "the tests that compare with PyTorch are skipped." make_peers); then
    echo "$stamp" >build/peers/stamp
  else
    echo "it could not be made (no network, or no such package; see the log above)" \
      >build/peers.reason
    say "SKIPPED: build/peers: $(cat build/peers.reason)"
  fi
}

make_tokenizers() {
  rm -rf build/tokenizers
  "$(system_python)" -m venv build/tokenizers &&
    pip_into build/tokenizers "$(grep '^tokenizers==' tests/peers/requirements.txt)"
}

need_tokenizers() {
  if build/tokenizers/bin/python3 -c 'import tokenizers' 2>/dev/null; then
    return
  fi
  run_step tokenizers "Making the Python environment build/tokenizers" \
    "check the network (pip downloads the package tokenizers), then try again." make_tokenizers
}

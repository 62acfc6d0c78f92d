#!/bin/sh
# Makes .venv with exactly what requirements.lock says, and Slipstream in it as an editable install; does nothing where
# that was done before. make runs this before every target.
#
# Needs one of: a Python 3.10 with its venv module (python3.10 or python3), or uv. Options: none.

set -eu
CDPATH='' cd -- "$(dirname -- "$0")"

venv=.venv
stamp=$venv/.bootstrap-stamp # Written last, so that what was interrupted is not taken for done.
unfinished=$venv/.bootstrap-unfinished
python=$venv/bin/python

fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

# What the environment was made from. The folder is part of it: scripts in .venv name their interpreter's whole path.
wanted() {
  pwd -P
  cat .python-version
  sha256sum requirements.lock pyproject.toml
}

is_done() {
  [ -x "$python" ] && [ -f "$stamp" ] && [ ! -e "$unfinished" ] && [ "$(cat "$stamp")" = "$(wanted)" ]
}

is_python_310() {
  "$1" -c 'import sys; raise SystemExit(sys.version_info[:2] != (3, 10))' >/dev/null 2>&1
}

# A pyenv shim may exist and fail, and Debian's python3.10 may lack venv: so each is tried.
find_python() {
  for candidate in python3.10 python3 python; do
    if is_python_310 "$candidate" && "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

# An environment that can be brought up to date in place: of this folder, with a Python that still works. Others may be
# using it, so that one is never thrown away, whatever went wrong while it was filled.
is_reusable() {
  is_python_310 "$python" && { [ ! -f "$stamp" ] || [ "$(head -n 1 "$stamp")" = "$(pwd -P)" ]; }
}

make_venv() {
  base=$(find_python)
  if [ -n "$base" ]; then
    echo "bootstrap: making $venv with $base"
    "$base" -m venv --clear "$venv" || fail "bootstrap: $base cannot make $venv (see above): mend it, or install uv."
  elif uv --version >/dev/null 2>&1; then
    echo "bootstrap: making $venv with uv"
    uv venv --quiet --clear --python 3.10 "$venv" ||
      fail "bootstrap: uv cannot make $venv with Python 3.10 (see above): install Python 3.10, or let uv download it."
  elif is_python_310 python3.10 || is_python_310 python3; then
    fail "Slipstream needs Python 3.10 with its venv module, which this Python 3.10 lacks: install it (on Debian and Ubuntu the package python3.10-venv) or install uv, and run make again."
  else
    fail "Slipstream needs Python 3.10 or uv, and neither is on the PATH: install one of them (uv brings its own Python 3.10) and run make again."
  fi
}

# The uv of the environment, in the locked version; where the environment has no pip (uv made it) the uv on the PATH.
find_uv() {
  version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.lock)
  if "$venv/bin/uv" --version 2>/dev/null | grep -q -F "uv $version "; then
    uv=$venv/bin/uv
  elif "$python" -m pip --version >/dev/null 2>&1; then
    echo "bootstrap: installing uv $version"
    sed -n '/^uv==/,/[^\\]$/p' requirements.lock >"$venv/uv.txt"
    "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --require-hashes \
      -r "$venv/uv.txt" || fail "bootstrap: pip cannot install uv $version (see above): check the network, and run make again."
    uv=$venv/bin/uv
  elif uv --version >/dev/null 2>&1; then
    uv=uv
  elif "$python" -m ensurepip --default-pip >/dev/null 2>&1; then
    find_uv
  else
    fail "bootstrap: $venv has no pip and there is no uv on the PATH: remove $venv, and run make again."
  fi
}

install() {
  echo "bootstrap: installing what requirements.lock says"
  # The lock also pins what builds the one package that comes as source.
  reinstall=
  if [ -e "$unfinished" ]; then
    reinstall=--reinstall # A package may lie there in part.
  fi
  : >"$unfinished"
  # Compiled here, once: a run has several processes, and each would compile TensorFlow for ten seconds when it starts, every
  # time where PYTHONDONTWRITEBYTECODE is set.
  # shellcheck disable=SC2086
  "$uv" pip sync $reinstall --quiet --compile-bytecode --python "$python" --require-hashes --build-constraints requirements.lock requirements.lock ||
    fail "bootstrap: the packages of requirements.lock cannot be installed (see above): check the network and the disk, and run make again (if it stays, remove $venv first)."
  rm -f "$unfinished"
  "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation --editable . ||
    fail "bootstrap: Slipstream itself cannot be installed into $venv (see above): mend pyproject.toml, and run make again."
}

if is_done; then
  exit 0
fi

# One bootstrap at a time: the second waits for the first, and finds its work done.
if command -v flock >/dev/null 2>&1; then
  exec 9<bootstrap.sh
  flock 9 || :
  if is_done; then
    exit 0
  fi
fi

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "Slipstream's packages exist for Linux on x86-64 alone, and this is $(uname -sm): use the Docker image."
fi
if ! is_reusable; then
  make_venv
fi
goal=$(wanted) # As it is now: a file that changes meanwhile is for the next time.
find_uv
install
printf '%s\n' "$goal" >"$stamp"
echo "bootstrap: $venv is ready"

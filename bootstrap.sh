#!/bin/sh
# Makes .venv with exactly the packages of requirements.lock, and Slipstream as an editable install; does nothing if that is
# done already. make runs this before every target.
#
# Needs Python 3.10 with its venv module (python3.10 or python3), or uv. Takes no options.

set -eu
CDPATH='' cd -- "$(dirname -- "$0")"

venv=.venv
stamp=$venv/.bootstrap-stamp # Written last, so that an interrupted run is not mistaken for a finished one.
unfinished=$venv/.bootstrap-unfinished
python=$venv/bin/python

fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

# What the environment is made from. This includes the folder, as scripts in .venv hold their interpreter's full path.
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

# Tries each one: a pyenv shim may exist and fail, and Debian's python3.10 may lack venv.
find_python() {
  for candidate in python3.10 python3 python; do
    if is_python_310 "$candidate" && "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

# Whether the environment can be updated in place: it was made for this folder, and its Python still works. Such an
# environment is never removed, even if an installation into it failed: other processes may be using it.
is_reusable() {
  is_python_310 "$python" && { [ ! -f "$stamp" ] || [ "$(head -n 1 "$stamp")" = "$(pwd -P)" ]; }
}

make_venv() {
  base=$(find_python)
  if [ -n "$base" ]; then
    echo "bootstrap: making $venv with $base"
    "$base" -m venv --clear "$venv" || fail "bootstrap: $base cannot make $venv (see above): repair it, or install uv."
  elif uv --version >/dev/null 2>&1; then
    echo "bootstrap: making $venv with uv"
    uv venv --quiet --clear --python 3.10 "$venv" ||
      fail "bootstrap: uv cannot make $venv with Python 3.10 (see above): install Python 3.10, or let uv download it."
  elif is_python_310 python3.10 || is_python_310 python3; then
    fail "Slipstream needs Python 3.10 with its venv module, and this Python 3.10 lacks the module: install it (on Debian and Ubuntu the package python3.10-venv) or install uv, and run make again."
  else
    fail "Slipstream needs Python 3.10 or uv, and neither is on the PATH: install one of them (uv brings its own Python 3.10) and run make again."
  fi
}

# Finds uv: the environment's own, in the locked version, or the uv on the PATH if the environment has no pip (uv made it).
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
  echo "bootstrap: installing the packages of requirements.lock"
  # The lock also pins the build tools of the one package that comes as source.
  reinstall=
  if [ -e "$unfinished" ]; then
    reinstall=--reinstall # A package may be incomplete.
  fi
  : >"$unfinished"
  # Byte code is compiled here, once. Otherwise each process of a run would compile TensorFlow's for ten seconds when it starts,
  # and every time if PYTHONDONTWRITEBYTECODE is set.
  # shellcheck disable=SC2086
  "$uv" pip sync $reinstall --quiet --compile-bytecode --python "$python" --require-hashes --build-constraints requirements.lock requirements.lock ||
    fail "bootstrap: the packages of requirements.lock cannot be installed (see above): check the network and the disk, and run make again (if that does not help, remove $venv first)."
  rm -f "$unfinished"
  "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation --editable . ||
    fail "bootstrap: Slipstream itself cannot be installed into $venv (see above): correct pyproject.toml, and run make again."
}

if is_done; then
  exit 0
fi

# One bootstrap at a time: a second one waits for the first, and then finds the work done.
if command -v flock >/dev/null 2>&1; then
  exec 9<bootstrap.sh
  flock 9 || :
  if is_done; then
    exit 0
  fi
fi

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "Slipstream's packages exist only for Linux on x86-64, and this is $(uname -sm): use such a machine."
fi
if ! is_reusable; then
  make_venv
fi
goal=$(wanted) # Taken now, so that a file that changes during the installation causes another one.
find_uv
install
printf '%s\n' "$goal" >"$stamp"
echo "bootstrap: $venv is ready"

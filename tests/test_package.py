"""The package, its lock and its bootstrap."""

import importlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest
import tomli

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYPROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())
ROOMS = [pattern.removesuffix("*") for pattern in PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
LOCK = (ROOT / "requirements.lock").read_text()
NOT_PACKAGES = {"build", "dist", "docker", "docs", "examples", "runs", "tests"}


def _folders_with_code():
  """Relative to the root, at any depth."""
  for folder in ROOT.iterdir():
    if folder.is_dir() and folder.name not in NOT_PACKAGES and not folder.name.startswith("."):
      yield from {path.relative_to(ROOT).parent for path in folder.rglob("*.py")}


def _canonical(name):
  return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_the_one_of_this_tree(room):
  assert importlib.import_module(room).__file__ == str(ROOT / room / "__init__.py")


def test_rooms_are_the_folders_with_code():
  assert sorted(ROOMS) == sorted({folder.parts[0] for folder in _folders_with_code()})


def test_every_folder_with_code_is_a_package():
  assert [folder for folder in _folders_with_code() if not (ROOT / folder / "__init__.py").is_file()] == []


def test_tools_know_every_room():
  tools = PYPROJECT["tool"]
  assert sorted(tools["importlinter"]["root_packages"]) == sorted(ROOMS)
  assert sorted([*tools["coverage"]["run"]["source_pkgs"], "benchmarks"]) == sorted(ROOMS)


def test_lock_pins_every_dependency():
  pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ \\]+)", LOCK, re.MULTILINE))
  project = PYPROJECT["project"]
  for requirement in itertools.chain(project["dependencies"], *project["optional-dependencies"].values()):
    match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:==(\S+)|[<>].*)?", requirement)
    assert match, requirement
    name, exact = match.groups()
    assert _canonical(name) in pins
    assert exact in (None, pins[_canonical(name)])


def test_lock_holds_hashes_and_no_place():
  blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
  assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []
  assert re.findall(r"\w+://\S*|--(?:index|extra-index|find-links)\S*|(?<![\w.])/\w\S*", LOCK) == []


def test_rooms_import_from_another_folder(tmp_path):
  env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
  code = "import configs, launch; print(configs.__file__); print(launch.__file__)"
  done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
  assert done.stdout.splitlines() == [str(ROOT / "configs" / "__init__.py"), str(ROOT / "launch" / "__init__.py")]


def test_console_script_is_installed():
  assert os.access(pathlib.Path(sysconfig.get_path("scripts")) / "slipstream", os.X_OK)


# A python3.10 that only makes the files that bootstrap.sh looks for, and logs its arguments.
FAKE_PYTHON = """#!/bin/sh
echo "python $*" >>"$BOOTSTRAP_LOG"
case "$*" in
  "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip install"*) cp "$FAKE_UV" .venv/bin/uv ;;
esac
"""
FAKE_UV = """#!/bin/sh
if [ "$1" = --version ]; then
  echo "uv $UV_VERSION (fake)"
  exit
fi
echo "uv $*" >>"$BOOTSTRAP_LOG"
case "$1" in venv) mkdir -p .venv/bin && cp "$FAKE_PYTHON" .venv/bin/python ;; esac
[ ! -e fail ]
"""
TOOLS = ["cat", "cp", "dirname", "grep", "head", "mkdir", "rm", "sed", "sh", "sha256sum", "uname"]


class Bootstrap:
  """A copy of the files that bootstrap.sh reads, and a PATH with the tools that it needs but neither Python nor uv."""

  def __init__(self, folder):
    self.tree = folder / "a tree"
    self.tree.mkdir()
    for name in ("bootstrap.sh", ".python-version", "pyproject.toml", "requirements.lock"):
      shutil.copy(ROOT / name, self.tree)
    self._bin = folder / "bin"
    self._bin.mkdir()
    for tool in TOOLS:
      (self._bin / tool).symlink_to(shutil.which(tool))
    self._log = folder / "log"
    self._uv = folder / "fake_uv"
    self._write(self._uv, FAKE_UV)
    self._bare_python = folder / "python_without_pip"
    self._write(self._bare_python, '#!/bin/sh\ncase "$*" in *pip*) exit 1 ;; esac\n')

  @staticmethod
  def _write(path, text):
    path.write_text(text)
    path.chmod(0o755)

  def give_python(self, name="python3.10", text=FAKE_PYTHON):
    self._write(self._bin / name, text)

  def give_uv(self):
    self._write(self._bin / "uv", FAKE_UV)

  def run(self):
    self._log.write_text("")
    version = re.findall(r"^uv==(\S+)", LOCK, re.MULTILINE)[0]
    env = {
      "PATH": str(self._bin),
      "BOOTSTRAP_LOG": str(self._log),
      "FAKE_PYTHON": str(self._bare_python),
      "FAKE_UV": str(self._uv),
      "UV_VERSION": version,
    }
    return subprocess.run([self.tree / "bootstrap.sh"], cwd="/", env=env, capture_output=True, text=True, check=False)

  def commands(self, of="uv"):
    return [line for line in self._log.read_text().splitlines() if line.startswith(of)]


@pytest.fixture
def bootstrap(tmp_path):
  if (os.uname().sysname, os.uname().machine) != ("Linux", "x86_64"):
    pytest.skip("the bootstrap refuses other platforms")
  return Bootstrap(tmp_path)


def test_bootstrap_without_python_and_uv_says_one_sentence(bootstrap):
  done = bootstrap.run()
  assert done.returncode == 1
  assert done.stdout == ""
  assert re.fullmatch(
    r"Slipstream needs Python 3\.10 or uv, and neither is on the PATH: [^.]*3\.10\) and [^.]*\.\n", done.stderr
  )
  assert not (bootstrap.tree / ".venv").exists()


def test_bootstrap_passes_over_a_python_that_does_not_run(bootstrap):
  bootstrap.give_python(text="#!/bin/sh\nexit 127\n")
  assert "neither is on the PATH" in bootstrap.run().stderr


def test_bootstrap_says_that_the_venv_module_is_missing(bootstrap):
  bootstrap.give_python(text='#!/bin/sh\ncase "$*" in *venv*) exit 1 ;; esac\n')
  done = bootstrap.run()
  assert done.returncode == 1
  assert "venv module" in done.stderr
  assert len(done.stderr.splitlines()) == 1


def test_bootstrap_takes_python3_where_it_is_310(bootstrap):
  bootstrap.give_python("python3")
  assert bootstrap.run().returncode == 0


def test_bootstrap_with_uv_alone_lets_uv_bring_python(bootstrap):
  bootstrap.give_uv()
  done = bootstrap.run()
  assert done.returncode == 0, done.stderr
  assert [command.split()[1:3] for command in bootstrap.commands()] == [
    ["venv", "--quiet"],
    ["pip", "sync"],
    ["pip", "install"],
  ]


def test_bootstrap_installs_the_lock_once(bootstrap):
  bootstrap.give_python()
  first = bootstrap.run()
  assert first.returncode == 0, first.stderr
  assert [command.split()[2] for command in bootstrap.commands()] == ["sync", "install"]
  second = bootstrap.run()
  assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
  assert bootstrap.commands("") == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", ".python-version"])
def test_bootstrap_brings_a_changed_tree_up_to_date_in_place(bootstrap, name):
  bootstrap.give_python()
  assert bootstrap.run().returncode == 0
  with (bootstrap.tree / name).open("a") as file:
    file.write("\n")
  assert bootstrap.run().returncode == 0
  assert [command.split()[2] for command in bootstrap.commands()] == ["sync", "install"]
  assert [command for command in bootstrap.commands("python") if "-m venv" in command] == []


def test_bootstrap_mends_an_unfinished_environment_in_place(bootstrap):
  bootstrap.give_python()
  (bootstrap.tree / "fail").touch()
  failed = bootstrap.run()
  assert failed.returncode == 1
  assert "run make again" in failed.stderr
  (bootstrap.tree / "fail").unlink()
  assert bootstrap.run().returncode == 0
  assert "--reinstall" in bootstrap.commands()[0]
  assert [command for command in bootstrap.commands("python") if "-m venv" in command] == []
  assert bootstrap.run().stdout == ""


def test_bootstrap_keeps_an_environment_that_it_did_not_make(bootstrap):
  bootstrap.give_python()
  assert bootstrap.run().returncode == 0
  (bootstrap.tree / ".venv" / ".bootstrap-stamp").unlink()
  (bootstrap.tree / ".venv" / "kept").touch()
  assert bootstrap.run().returncode == 0
  assert (bootstrap.tree / ".venv" / "kept").exists()


def test_bootstrap_makes_a_moved_environment_anew(bootstrap):
  bootstrap.give_python()
  assert bootstrap.run().returncode == 0
  bootstrap.tree = bootstrap.tree.rename(bootstrap.tree.with_name("moved"))
  assert bootstrap.run().returncode == 0
  assert len([command for command in bootstrap.commands("python") if "-m venv --clear" in command]) == 1

"""A console and its client need the packages of requirements-console.lock, and no other; and the generated code is current."""

import hashlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

from tests.consoles.serving import ROOT, console_process

_LOCK = (ROOT / "requirements-console.lock").read_text()
_PINS = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ \\]+)", _LOCK, re.MULTILINE))
# What comes with an installation of Python and is no package of the lock.
_PLAY = """
import sys
import numpy as np
from consoles.client import Console
console = Console(sys.argv[1])
console.reset(seed=1)
_, rewards, *_ = console.step([[0.0, 1.0]])
assert rewards.shape == (1,)
console.close()
"""


@pytest.fixture(name="python", scope="module")
def _python(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
  """A Python that sees the standard library, this tree, and links to the files of the lock's packages."""
  folder = tmp_path_factory.mktemp("packages")
  for name, version in _PINS.items():
    distribution = importlib.metadata.distribution(name)
    assert distribution.version == version
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops - {"google"}:
      (folder / top).symlink_to(str(distribution.locate_file(top)))
    if "google" in tops:  # Other packages put theirs there, too.
      (folder / "google").mkdir(exist_ok=True)
      for second in {file.parts[1] for file in distribution.files or () if file.parts[0] == "google"}:
        (folder / "google" / second).symlink_to(str(distribution.locate_file(f"google/{second}")))
  return [sys.executable, "-S", "-c", _RUN.format(folder=str(folder), root=str(ROOT))]


# `python -S` knows no site-packages; the lock's packages come by a path of their own.
_RUN = """
import runpy, sys
sys.path[:0] = [{root!r}, {folder!r}]
if sys.argv[1:2] == ["-m"]:
  sys.argv[:] = sys.argv[2:]
  runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
  code = sys.argv[2]
  sys.argv[:] = sys.argv[2:]
  exec(code)
"""


@pytest.mark.parametrize(
  "name", ["acme", "cattrs", "tensorflow", "reverb", "launchpad", "absl", "PIL", "psutil", "tree"]
)
def test_the_python_of_these_tests_lacks_what_a_console_lacks(python: list[str], name: str) -> None:
  done = subprocess.run([*python, "-c", f"import {name}"], capture_output=True, text=True, check=False)
  assert f"No module named '{name}'" in done.stderr


def test_a_console_and_its_client_run_with_the_packages_of_the_lock(python: list[str]) -> None:
  with console_process("--world=slingshot", python=python, env={"PYTHONPATH": ""}) as console:
    played = subprocess.run([*python, "-c", _PLAY, console.address], capture_output=True, text=True, check=False)
    assert (played.returncode, played.stderr) == (0, "")
    assert console.end() == 143


def test_the_lock_has_the_versions_of_the_main_lock() -> None:
  main = (ROOT / "requirements.lock").read_text()
  assert {name: version for name, version in _PINS.items() if f"\n{name}=={version} " not in f"\n{main}"} == {}
  assert {"numpy", "grpcio", "protobuf", "gymnasium", "numba"} <= set(_PINS)


def test_the_generated_code_is_of_the_protocol_as_it_is() -> None:
  digest = hashlib.sha256((ROOT / "consoles" / "console.proto").read_bytes()).hexdigest()
  made = pathlib.Path(ROOT / "consoles" / "console_pb2.py").read_text()
  assert made.splitlines()[0] == f"# Made by 'make protocol' from console.proto, sha256 {digest}."

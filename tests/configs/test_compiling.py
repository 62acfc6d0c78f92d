"""Kernels where compiled code can be kept, and where it cannot."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from configs.compiling import kernel

_ROOT = pathlib.Path(__file__).parents[2]
_MODULE = """
import sys
import numpy as np
from configs.compiling import helper, kernel

@helper
def twice(value: float) -> float:
  return 2 * value

@kernel
def double(values):
  "Doubles."
  for index in range(len(values)):
    values[index] = twice(values[index])

values = np.ones(3)
double(values)
double(values)
print(values.tolist(), double.keeps_code, double.__doc__, double.__name__)
"""


def _start(folder: pathlib.Path, **env: str) -> "subprocess.Popen[str]":
  command = [sys.executable, "-W", "error", str(folder / "kernels_of_test.py")]
  inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
  whole = {**inherited, "PYTHONPATH": str(_ROOT), **env}
  return subprocess.Popen(command, cwd=folder, env=whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _end(process: "subprocess.Popen[str]") -> str:
  said, errors = process.communicate(timeout=120)
  assert process.returncode == 0, errors
  return said.strip()


def _run(folder: pathlib.Path, **env: str) -> str:
  return _end(_start(folder, **env))


@pytest.fixture
def module(tmp_path: pathlib.Path) -> pathlib.Path:
  (tmp_path / "kernels_of_test.py").write_text(_MODULE)
  return tmp_path


def test_compiled_code_is_kept_beside_its_file(module: pathlib.Path) -> None:
  assert _run(module) == "[4.0, 4.0, 4.0] True Doubles. double"
  kept = {path.name: path.stat().st_mtime_ns for path in (module / "__pycache__").glob("*.nb*")}
  assert kept
  assert _run(module) == "[4.0, 4.0, 4.0] True Doubles. double"
  assert kept == {path.name: path.stat().st_mtime_ns for path in (module / "__pycache__").glob("*.nb*")}


def test_of_processes_that_start_together_one_compiles(module: pathlib.Path) -> None:
  path = module / "kernels_of_test.py"
  path.write_text(path.read_text() + "print(sum(double._compiled.stats.cache_misses.values()))\n")
  processes = [_start(module) for _ in range(4)]
  assert sorted(_end(process).splitlines()[-1] for process in processes) == ["0", "0", "0", "1"]


def test_where_no_folder_takes_compiled_code_it_is_compiled_in_memory(module: pathlib.Path) -> None:
  # A plain file in each place where numba would make a folder: as root, no permission keeps it from that.
  (module / "__pycache__").write_text("")
  (module / "home").write_text("")
  cache = str(module / "home" / "cache")
  assert _run(module, HOME=cache, XDG_CACHE_HOME=cache) == "[4.0, 4.0, 4.0] False Doubles. double"


def test_where_compiled_code_cannot_be_written_the_call_still_answers(module: pathlib.Path) -> None:
  limited = module / "limited.py"
  limited.write_text(
    "import resource, runpy\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))\n"
    f"runpy.run_path({str(module / 'kernels_of_test.py')!r})\n"
  )
  command = [sys.executable, str(limited)]
  done = subprocess.run(
    command, cwd=module, env={**os.environ, "PYTHONPATH": str(_ROOT)}, capture_output=True, text=True, check=False
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.strip() == "[4.0, 4.0, 4.0] False Doubles. double"


def test_without_the_compiler_a_kernel_is_its_function(module: pathlib.Path) -> None:
  assert _run(module, NUMBA_DISABLE_JIT="1").startswith("[4.0, 4.0, 4.0]")


def test_a_kernel_raises_what_its_function_raises() -> None:
  @kernel
  def third(values: np.ndarray) -> float:
    if len(values) < 3:
      raise ValueError("too short")
    return float(values[2])

  assert third(np.arange(3.0)) == 2.0
  with pytest.raises(ValueError, match="too short"):
    third(np.arange(2.0))

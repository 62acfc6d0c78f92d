"""`make test` ends when a test takes its tester down."""

import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[1]


def test_a_crash_ends_all_tests_and_is_named(tmp_path: pathlib.Path) -> None:
  (tmp_path / "test_crash.py").write_text(
    "import os\n\ndef test_goes():\n  pass\n\ndef test_crashes():\n  os.abort()\n"
  )
  for name in ("a", "b", "c"):
    (tmp_path / f"test_{name}.py").write_text("def test_goes():\n  pass\n")
  options = "-p tests.conftest -p no:cacheprovider --numprocesses=1 --dist=loadfile --no-loadscope-reorder"
  done = subprocess.run(
    [sys.executable, "-m", "pytest", *options.split(), str(tmp_path / "test_a.py"), str(tmp_path)],
    cwd=_ROOT,
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 1
  crashed = next(line for line in done.stdout.splitlines() if line.startswith("FAILED"))
  assert "test_crash.py::test_crashes" in crashed
  assert "test_crashes ended its tester: see the traces above." in done.stdout

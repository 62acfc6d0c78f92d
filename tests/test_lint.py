"""Style, format, types and the direction of imports, as `make lint` checks them, on one core beside the other tests."""

import pathlib
import subprocess

import pytest


@pytest.mark.timeout(600)
def test_make_lint_finds_nothing() -> None:
  folder = pathlib.Path(__file__).parents[1]
  done = subprocess.run(["make", "lint"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
  assert done.returncode == 0, done.stdout

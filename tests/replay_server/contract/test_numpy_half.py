"""The contract's numpy half is for processes that have neither TensorFlow nor Reverb in them."""

import subprocess
import sys

import pytest

# As the import-linter contract of the same name in pyproject.toml.
_NUMPY_HALF = ("codec", "layout", "manifest", "messages", "spec", "status")


@pytest.mark.parametrize("module", _NUMPY_HALF)
def test_it_loads_neither_tensorflow_nor_reverb(module: str) -> None:
  script = (
    f"import sys, replay_server.contract.{module}; "
    "print(*{'tensorflow', 'reverb', 'sonnet', 'gymnasium'} & set(sys.modules))"
  )
  done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
  assert done.stdout.split() == []

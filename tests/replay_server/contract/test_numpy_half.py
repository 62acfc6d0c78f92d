"""The contract's numpy half is for processes that load neither TensorFlow nor Reverb."""

import subprocess
import sys

import pytest

# The same modules as in the import-linter contract "numpy-half" in pyproject.toml.
_NUMPY_HALF = ("activity", "codec", "layout", "manifest", "messages", "progress", "spec", "status")


@pytest.mark.parametrize("module", _NUMPY_HALF)
def test_it_loads_neither_tensorflow_nor_reverb(module: str) -> None:
  script = (
    f"import sys, replay_server.contract.{module}; "
    "print(*{'tensorflow', 'reverb', 'sonnet', 'gymnasium'} & set(sys.modules))"
  )
  done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
  assert done.stdout.split() == []

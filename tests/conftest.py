"""The order of all tests, what hypothesis does in them, and what the garbage collector looks at."""

import gc

import hypothesis
import pytest

import launch  # noqa: F401 - has testers import TensorFlow as roles do, in half of the time.

# No test asserts a time: an example may take long where other work has the cores.
hypothesis.settings.register_profile("slipstream", deadline=None)
hypothesis.settings.load_profile("slipstream")

# The collector would look again and again at what the tests and TensorFlow bring with them, which stays. See the last hook.
gc.disable()

# They take longest, partly because they wait for processes of their own. If they began last, one core would be idle meanwhile.
_FIRST = (
  "test_program.py",
  "test_running.py",
  "test_refer_runs.py",
  "test_benchmarks.py",
  "test_lint.py",
  "test_mistakes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
  """Puts the modules that take longest first."""
  items.sort(key=lambda item: item.path.name not in _FIRST)


def pytest_collection_finish() -> None:
  """Has the collector look at what tests make, and at no more."""
  gc.freeze()
  gc.enable()

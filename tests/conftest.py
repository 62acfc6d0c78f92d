"""The order of all tests, what hypothesis does in them, what the garbage collector looks at, and what a crash ends."""

import gc
from typing import Any, NoReturn

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


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> NoReturn:
  """Ends all tests when one takes its tester down, by a crash or because it ran out of time.

  pytest-xdist 3.8 would start another tester, take files of which nothing is left for work, and wait for ever (its issue 1378).
  """
  sched.config.hook.pytest_runtest_logreport(report=report)
  pytest.exit(
    f"{crashitem} ended its tester: see the traces above. The tests that were left have not run.", returncode=1
  )

"""Packages that some commands need and not every installation has."""

import importlib.util

from configs import UserError

# Of the extra `experiments`, which the images leave out.
STATISTICS = ("rliable", "scipy")


def require_statistics(command: str) -> None:
  """Checks that the packages of the statistics are installed.

  Raises:
    UserError: one is not.
  """
  missing = [name for name in STATISTICS if importlib.util.find_spec(name) is None]
  if missing:
    raise UserError(
      f"'slipstream {command}' needs {' and '.join(missing)}, which the images leave out: run it in a clone of Slipstream, on a "
      "copy of the runs."
    )

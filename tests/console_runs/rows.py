"""`python -m tests.console_runs.rows RUN_DIR TABLES RESULT`: the rows of a snapshot's default table, as JSON."""

import json
import os
import pathlib
import sys

from tests.console_runs.notes import Row
from tests.faults.fleet import environment
from tests.faults.ledger import dumped_rows, unpacked_rows


def read_rows(run_dir: pathlib.Path) -> list[Row]:
  """The rows of the default table in the newest snapshot; see `dumped_rows`."""
  return [Row(*row) for row in dumped_rows(run_dir, "tests.console_runs.rows", environment())]


def _dump(run_dir: pathlib.Path, folder: pathlib.Path, result: pathlib.Path) -> None:
  from tests.console_runs.world import digest

  rows = [
    (
      int(row["episode"]),
      int(row["step"]),
      digest(row["next_observation"]),
      bool(row["terminated"] or row["truncated"]),
      int(row["policy_version"]),
    )
    for row in unpacked_rows(run_dir, folder)
  ]
  result.write_text(json.dumps(rows))


if __name__ == "__main__":
  _dump(*map(pathlib.Path, sys.argv[1:4]))
  sys.stdout.flush()
  os._exit(0)  # Without waiting for Reverb's threads.

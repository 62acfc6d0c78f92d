"""The CSV of an experiment's curves, which holds everything that its runs measured."""

import csv
import dataclasses
import io
import math
import pathlib
import re
from collections.abc import Mapping, Sequence

from configs import UserError
from experiments.definition import Experiment, Method
from experiments.jobs import RunResult, format_value

# They come before the experiment's columns; `config` is the digest of the run's job.
_RUN_COLUMNS = ("method", "seed", "config")
_DIGEST = re.compile("[0-9a-f]+")

Results = Mapping[str, Sequence[RunResult]]  # Method -> its runs, by seed.


def curves_csv(experiment: Experiment, results: Results) -> str:
  """One row for each evaluation of each run: the run's columns and the experiment's; what was not measured is empty."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow((*_RUN_COLUMNS, *experiment.columns))
  for method, runs in results.items():
    for run in runs:
      for row in zip(*(run.column(column) for column in experiment.columns), strict=True):
        writer.writerow((method, run.seed, run.digest, *map(format_value, row)))
  return text.getvalue()


def is_curves_file(path: pathlib.Path) -> bool:
  """Whether a file begins as one that `curves_csv` made."""
  try:
    with path.open(newline="", errors="replace") as file:
      return file.readline().rstrip("\n").split(",")[:3] == list(_RUN_COLUMNS)
  except OSError:
    return False


def read_curves(path: pathlib.Path) -> list[RunResult]:
  """The runs of a file that `curves_csv` made; none if there is no such file.

  Raises:
    UserError: the file is something else.
  """
  if not path.is_file():
    return []
  points: dict[tuple[str, int, str], list[tuple[float, ...]]] = {}
  try:
    with path.open(newline="") as file:
      rows = csv.reader(file)
      header = next(rows, [])
      if tuple(header[:3]) != _RUN_COLUMNS:
        raise ValueError(f"it does not begin with the columns {', '.join(_RUN_COLUMNS)}")
      columns = header[3:]
      for method, seed, digest, *cells in rows:
        values = tuple(float(cell) if cell else math.nan for cell in cells)
        if len(values) != len(columns) or not method.isidentifier() or not _DIGEST.fullmatch(digest):
          raise ValueError(f"line {rows.line_num} is not a run's")
        points.setdefault((method, int(seed), digest), []).append(values)
  except ValueError as error:
    raise UserError(
      f"{path} is not a CSV file of an experiment's runs ({error}): move it away, or choose another folder with --out."
    ) from None
  return [
    RunResult(digest, method, seed, tuple(columns), tuple(values)) for (method, seed, digest), values in points.items()
  ]


def with_peers(
  experiment: Experiment, methods: Sequence[Method], results: Results, folder: pathlib.Path
) -> tuple[list[Method], Results]:
  """The methods and their runs, and after them those of the experiment's peers whose files are in a folder.

  A peer's file may lack columns: its runs have not measured them.

  Raises:
    UserError: a file is something else.
  """
  runs_of_peers = {
    peer: [_completed(run, experiment.columns) for run in runs]
    for peer in experiment.peers
    if (runs := read_curves(folder / peer.file))
  }
  peers = [Method(peer.name, peer.label, lambda config: config) for peer in runs_of_peers]
  return [*methods, *peers], {**results, **{peer.name: runs for peer, runs in runs_of_peers.items()}}


def _completed(run: RunResult, columns: Sequence[str]) -> RunResult:
  """`run` with these columns; NaN where it has none."""
  nothing = [math.nan] * len(run.points)
  values = [run.column(name) if name in run.columns else nothing for name in columns]
  return dataclasses.replace(run, columns=tuple(columns), points=tuple(zip(*values, strict=True)))

"""Finds the runs below a folder: run directories, and the results that experiments leave."""

import dataclasses
import datetime as dt
import functools
import math
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from configs import UserError, to_dict
from experiments.curves import is_curves_file, read_curves
from experiments.jobs import Job, RunResult, load_result
from experiments.registry import EXPERIMENTS, find_experiment
from launch.stored_run import StoredRun, is_run_directory, read_run

_RESULT = re.compile(r"[0-9a-f]{12}\.json")


def find_runs(folder: pathlib.Path) -> Iterator[StoredRun]:
  """The runs in a folder and all folders below it, one by one; what is damaged comes with notes.

  Args:
    folder: any folder; a run directory is its own only run, and an experiment's folder has the runs of its CSV files and of
      `runs/`, and those under way in `work/`.

  Raises:
    UserError: there is no such folder, or it cannot be read.
  """
  if not folder.is_dir():
    raise UserError(f"There is no folder {folder}: name one that holds runs, such as the --run_root of 'train'.")
  try:
    os.scandir(folder).close()
  except OSError as error:
    raise UserError(f"The folder {folder} cannot be read ({error.strerror}): name another.") from None
  results: list[pathlib.Path] = []
  curves: list[pathlib.Path] = []
  for directory in _walk(folder):
    if is_run_directory(directory):
      yield read_run(directory)
      continue
    names = _files(directory)
    results += [directory / name for name in names if _RESULT.fullmatch(name)]
    curves += [directory / name for name in names if name.endswith(".csv") and is_curves_file(directory / name)]
  yield from _experiments_runs(results, curves)


def _walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """The folder and all below it that can be read, but for hidden ones and for those in run directories."""
  for path, folders, _ in os.walk(folder):
    directory = pathlib.Path(path)
    folders[:] = [] if is_run_directory(directory) else sorted(name for name in folders if not name.startswith("."))
    yield directory


def _files(directory: pathlib.Path) -> list[str]:
  with os.scandir(directory) as entries:
    return sorted(entry.name for entry in entries if entry.is_file())


def _experiments_runs(results: Sequence[pathlib.Path], curves: Sequence[pathlib.Path]) -> Iterator[StoredRun]:
  """The runs of CSV files, and those of files of their own that are in no CSV yet, as an interrupted experiment leaves them."""
  listed: set[tuple[pathlib.Path, str]] = set()
  for path in curves:
    try:
      runs = read_curves(path)
    except UserError:
      yield StoredRun(path, path.stem, path.name, when=_written(path), notes=(f"{path.name} is damaged",))
      continue
    listed |= {(path.parent, run.digest) for run in runs}
    yield from (_stored(run, path.stem, path) for run in runs)
  for path in results:
    folder = path.parent.parent if path.parent.name == "runs" else path.parent
    if (folder, path.stem) in listed:
      continue
    result, name = load_result(path), _experiments_name(folder)
    if result is None:
      yield StoredRun(path, name, path.stem, when=_written(path), notes=(f"{path.name} is damaged",))
    else:
      yield _stored(result, name, path)


def _experiments_name(folder: pathlib.Path) -> str:
  """The experiment whose folder this is, by the names of its folders; else the folder's own name."""
  folder = folder.resolve()
  return next((name for name in (folder.name, folder.parent.name) if name in EXPERIMENTS), folder.name)


def _written(path: pathlib.Path) -> dt.datetime:
  return dt.datetime.fromtimestamp(path.stat().st_mtime, dt.timezone.utc)


@functools.cache
def _has_goal(experiment: str) -> bool:
  return experiment not in EXPERIMENTS or find_experiment(experiment).config.evaluator.has_goal


def _stored(result: RunResult, name: str, path: pathlib.Path) -> StoredRun:
  columns = {column: np.array(result.column(column), np.float64) for column in result.columns}
  returns = columns.get("eval_return", np.empty(0))
  returns = returns[np.isfinite(returns)]
  solved = columns["environment_steps"][columns["eval_solved"] > 0] if "eval_solved" in columns else np.empty(0)
  first_solved = float(solved[0]) if len(solved) else math.inf
  return StoredRun(
    path=path,
    name=name,
    run_id=result.digest,
    when=_written(path),
    method=result.method,
    seed=result.seed,
    phase="exhausted",
    environment_steps=_last(columns.get("environment_steps", ())),
    gradient_steps=_last(columns["gradient_steps"]),
    best_return=float(returns.max()) if len(returns) else None,
    last_return=float(returns[-1]) if len(returns) else None,
    solved_at=first_solved if _has_goal(name) else None,
    columns=columns,
  )


def with_config(run: StoredRun) -> StoredRun:
  """The run with its config. A result holds none, but if an experiment's job has its digest, the config is that job's."""
  if run.config or run.seed is None or run.name not in EXPERIMENTS:
    return run
  experiment = find_experiment(run.name)
  for method in experiment.methods:
    for budget in experiment.budgets.values() if method.name == run.method else ():
      config = experiment.config_of(method, budget, run.seed)
      if Job(method.name, run.seed, config, experiment.probes, experiment.recorded).digest == run.run_id:
        return dataclasses.replace(run, config=to_dict(dataclasses.replace(config, method=method.name)))
  return run


def _last(values: Iterable[float]) -> int | None:
  finite = [value for value in values if math.isfinite(value)]
  return int(finite[-1]) if finite else None


def without_columns(run: StoredRun) -> StoredRun:
  """The run without its metrics, so that a list of many runs takes little memory."""
  return dataclasses.replace(run, columns={})

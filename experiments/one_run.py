"""The process of one run: `python -m experiments.one_run JOB_FILE RUN_FOLDER RESULT_FILE PARENT_PID`."""

import dataclasses
import math
import pathlib
import sys
import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from configs import RunConfig, UserError
from environments import load_reference
from experiments.definition import EVALUATION_COLUMNS
from experiments.jobs import Job, RunResult, read_job, write_result
from experiments.probes import Probe
from launch.inline import run_inline
from launch.process import RoleProcess, exit_process, stop_on_signals
from launch.run_directory import RunDirectory
from launch.view.run_view import RunView
from replay_server.process.recorder import METRICS_FILE, read_metrics


def main(job_file: str, run_folder: str, result_file: str, parent: str) -> int:
  """Runs a job and writes its result; returns the exit code."""
  with stop_on_signals() as stop:
    run = RunDirectory(pathlib.Path(run_folder))
    process = RoleProcess("run", stop)
    process.watch_parent(int(parent))
    return process.run(lambda: run_job(read_job(pathlib.Path(job_file)), run, pathlib.Path(result_file), stop))


def run_job(job: Job, run: RunDirectory, result_file: pathlib.Path, stop: threading.Event) -> None:
  """Runs a job inline until its budget is used and writes the result; a run that is stopped leaves none.

  Raises:
    UserError: something is wrong with the config, the environment or a probe, or a curve has no points.
  """
  probes = {column: make_probe(column, reference, job.config) for column, reference in job.probes.items()}
  probed: dict[int, dict[str, float]] = {}

  def on_evaluation(gradient_steps: int, weights: npt.NDArray[np.float32]) -> None:
    probed[gradient_steps] = {column: probe(weights) for column, probe in probes.items()}

  # The job's digest covers its config, so the run's own directory is where the method is named.
  config = dataclasses.replace(job.config, method=job.method)
  status = run_inline(config, run, stop, RunView(quiet=True), on_evaluation)
  if status.phase not in ("exhausted", "solved"):
    return
  columns = (*EVALUATION_COLUMNS, *job.recorded, *probes)
  points = _points(run, columns, job.recorded, probed)
  if not points:
    raise UserError(
      f"The run ended without an evaluation after {status.gradient_steps} gradient steps: give it a larger budget, or "
      "lower evaluator.period_updates."
    )
  write_result(result_file, RunResult(job.digest, job.method, job.seed, columns, tuple(points)))


def make_probe(column: str, reference: str, config: RunConfig) -> Probe:
  """Makes the probe of `column` for `config`, by the function that `reference` names.

  Raises:
    UserError: it cannot be loaded.
  """
  probe: Probe = load_reference(reference, f"The probe {column!r}")(config)
  return probe


def _points(
  run: RunDirectory,
  columns: tuple[str, ...],
  recorded: tuple[str, ...],
  probed: Mapping[int, Mapping[str, float]],
) -> list[tuple[float, ...]]:
  """A row of `columns` for every evaluation; NaN stands for what was not measured."""
  points: list[dict[str, float | None]] = []
  for row in read_metrics(run.path / METRICS_FILE):
    if row.get("eval_solved") is not None:
      points.append({**row, **probed.get(int(row["gradient_steps"] or 0), {})})
    elif points:
      # Rows of statuses that follow an evaluation: the first one with a value gives it.
      for name in recorded:
        if points[-1].get(name) is None:
          points[-1][name] = row.get(name)
  return [tuple(_number(values.get(column)) for column in columns) for values in points]


def _number(value: float | None) -> float:
  return math.nan if value is None else value


if __name__ == "__main__":
  exit_process(main(*sys.argv[1:]))

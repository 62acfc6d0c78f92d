"""`slipstream experiment`: runs what has no result yet, then writes the CSV, the picture and the table."""

import contextlib
import os
import pathlib
import shlex
import threading
from collections.abc import Iterable, Iterator, Sequence, Set

from configs import UserError
from configs.exit_codes import ExitCode
from configs.files import replace_text
from experiments.curves import curves_csv, read_curves, with_peers
from experiments.definition import Budget, Calculation, Experiment, Method
from experiments.jobs import Job, RunResult, plan, read_result, result_path, write_result
from experiments.pool import FailedRun, Folder, run_jobs
from experiments.progress import ProgressView
from experiments.registry import CALCULATIONS, EXPERIMENTS, find_budget, find_seeds, find_study
from launch.process import stop_on_signals


def run_command(name: str, seeds: int | None, processes: int | None, budget: str, out: str, methods: str) -> int:
  """Runs an experiment by its name, or lists all of them.

  Args:
    name: of the experiment; empty lists all of them.
    seeds: number of seeds of every method; None for the budget's.
    processes: number of runs at once; None for as many as there are cores.
    budget: name of the budget.
    out: folder for all output; empty takes runs/experiments/<name>/<budget>.
    methods: names, separated by commas; empty for all of the experiment's.

  Returns:
    The exit code: 0, 1 where a run failed, 130 where it was interrupted.

  Raises:
    UserError: a name is unknown, a run cannot be made from the experiment's config, or a file cannot be written.
  """
  if not name:
    names = [*EXPERIMENTS, *CALCULATIONS]
    width = max(map(len, names))
    for known in names:
      print(f"{known:{width}} {find_study(known).summary}")
    return 0
  experiment = find_study(name)
  if isinstance(experiment, Calculation):
    return _calculate(experiment, seeds, budget, out, methods)
  chosen = find_budget(experiment, budget)
  compared = experiment.select([method.strip() for method in methods.split(",") if method.strip()])
  folder = Folder(pathlib.Path(out or pathlib.Path("runs", "experiments", name, budget)))
  command = _same_command(name, seeds, processes, budget, out, methods)
  return run_experiment(
    experiment, compared, chosen, seeds or chosen.seeds, processes or available_cores(), folder, command
  )


def _calculate(calculation: Calculation, seeds: int | None, budget: str, out: str, methods: str) -> int:
  """Computes and writes a calculation; returns the exit code. It takes seconds, so nothing of it is kept on the way.

  Raises:
    UserError: it has no such budget, it has no methods to choose from, or a file cannot be written.
  """
  if methods:
    raise UserError(f"The experiment {calculation.name!r} always compares all of its methods: leave out --methods.")
  chosen = seeds or find_seeds(calculation, budget)
  folder = Folder(pathlib.Path(out or pathlib.Path("runs", "experiments", calculation.name, budget)))
  with _in_folder(folder):
    folder.path.mkdir(parents=True, exist_ok=True)
    print(calculation.write(chosen, folder.path, _same_command(calculation.name, seeds, None, budget, out, "")))
  return 0


def run_experiment(
  experiment: Experiment,
  methods: Sequence[Method],
  budget: Budget,
  seeds: int,
  processes: int,
  folder: Folder,
  command: str,
) -> int:
  """Runs what has no result yet, then writes the CSV, the picture and the table; returns the exit code.

  Raises:
    UserError: a run cannot be made from the experiment's config, a file cannot be written, or another command has been writing
      in the folder for two minutes; results of runs are kept.
  """
  take_in([experiment.name], folder)
  jobs = plan(experiment, methods, budget, seeds)
  missing = [job for job in jobs if not folder.done(job)]
  if missing:
    take_in(EXPERIMENTS, folder, {job.digest for job in missing})
    missing = [job for job in missing if not folder.done(job)]
  with stop_on_signals() as stop:
    failed = _run(experiment, jobs, missing, processes, folder, stop)
    interrupted = stop.is_set()
  if interrupted:
    done = sum(folder.done(job) for job in jobs)
    print(f"Interrupted: {done} of {len(jobs)} runs are done and kept. Go on with: {command}", flush=True)
    return ExitCode.INTERRUPTED
  results = _results(methods, jobs, folder)
  if any(results.values()):
    _write(experiment, methods, budget, results, folder, command)
  if failed:
    print(f"{len(failed)} of {len(jobs)} runs failed (see above). Try them again with: {command}", flush=True)
    return ExitCode.FAILED
  return 0


def take_in(names: Iterable[str], folder: Folder, digests: Set[str] | None = None) -> None:
  """Makes result files of runs that earlier CSVs have, so that none is repeated or lost.

  Args:
    names: of the CSVs' experiments.
    folder: where they are.
    digests: of the runs to take; None takes those that have no file.

  Raises:
    UserError: the folder cannot be written, or another command has been writing in it for two minutes.
  """
  with _in_folder(folder):
    folder.results.mkdir(parents=True, exist_ok=True)
    with folder.writing():
      for result in (result for name in names for result in read_curves(folder.path / f"{name}.csv")):
        path = result_path(folder.results, result)
        if not path.is_file() if digests is None else result.digest in digests:
          write_result(path, result)


@contextlib.contextmanager
def _in_folder(folder: Folder) -> Iterator[None]:
  try:
    yield
  except OSError as error:
    raise UserError(
      f"The folder {folder.path} cannot be written ({error.strerror}): choose another with --out."
    ) from None


def _run(
  experiment: Experiment,
  jobs: Sequence[Job],
  missing: Sequence[Job],
  processes: int,
  folder: Folder,
  stop: threading.Event,
) -> list[FailedRun]:
  waiting = len(missing)
  with _in_folder(folder), ProgressView(experiment.name, total=len(jobs), waiting=waiting) as view:
    view.message(
      f"{experiment.name}: {len(jobs)} runs, {len(jobs) - waiting} of them done before, {processes} at once, in {folder.path}"
    )
    return run_jobs(missing, folder, processes, stop, view.update, view.ended)


def _results(methods: Sequence[Method], jobs: Sequence[Job], folder: Folder) -> dict[str, list[RunResult]]:
  """Method -> its runs, by seed."""
  results: dict[str, list[RunResult]] = {method.name: [] for method in methods}
  for job in jobs:
    result = read_result(result_path(folder.results, job), job)
    if result is not None:
      results[job.method].append(result)
  return results


def _write(
  experiment: Experiment,
  methods: Sequence[Method],
  budget: Budget,
  results: dict[str, list[RunResult]],
  folder: Folder,
  command: str,
) -> None:
  # Imported here, as that takes seconds.
  from experiments import pictures, tables

  base = folder.path / experiment.name
  with folder.writing():
    replace_text(base.with_suffix(".csv"), curves_csv(experiment, results))
    shown, runs = with_peers(experiment, methods, results, folder.path)
    pictures.draw(experiment, shown, runs, base.with_suffix(".png"))
    summary = tables.summary_markdown(experiment, shown, runs, budget, command)
    replace_text(base.with_suffix(".md"), summary)
  print(summary)
  print(f"Written: {base}.csv, .png and .md", flush=True)


def available_cores() -> int:
  """Cores that this process may use."""
  return len(os.sched_getaffinity(0))


def _same_command(name: str, seeds: int | None, processes: int | None, budget: str, out: str, methods: str) -> str:
  words = ["slipstream", "experiment", name, f"--budget={budget}"]
  words += [f"--seeds={seeds}"] if seeds else []
  words += [f"--jobs={processes}"] if processes else []
  words += [f"--methods={methods}"] if methods else []
  words += [f"--out={out}"] if out else []
  return shlex.join(words)

"""Jobs, which are the runs of an experiment, and their results, small files that say exactly which job each belongs to."""

import dataclasses
import functools
import hashlib
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from configs import RunConfig, from_dict, to_dict, without_defaults
from configs.files import replace_text
from configs.migration import former_form
from experiments.definition import Budget, Experiment, Method

_HASH_DIGITS = 12
# Of a curve's values, in a run's file and in the CSV alike, so that both give the same tables.
_VALUE_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class Job:
  """One run.

  Attributes:
    method: the method's name.
    seed: of the run.
    config: of the run, its seed included.
    probes: column -> `module:function`.
    recorded: columns of metrics.csv.
  """

  method: str
  seed: int
  config: RunConfig
  probes: Mapping[str, str]
  recorded: tuple[str, ...] = ()

  @functools.cached_property
  def digest(self) -> str:
    """Twelve hexadecimal digits of the SHA-256 of what identifies this run: its config and its curves."""
    # Through a dict and back, so that 10 and 10.0 for one field are the same config.
    config: RunConfig = from_dict(to_dict(self.config))
    # Without defaults, so that a field that a later version adds does not change the digests of earlier runs. In the config's
    # former form, so that those runs keep their results.
    content: dict[str, Any] = {"config": former_form(without_defaults(config)), "probes": dict(self.probes)}
    if self.recorded:
      content["recorded"] = list(self.recorded)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_HASH_DIGITS]

  @property
  def stem(self) -> str:
    """Name of the run's directory, unique to the run."""
    return f"{self.method}-{self.seed}-{self.digest}"


@dataclasses.dataclass(frozen=True)
class RunResult:
  """The result of a run that used its whole budget.

  Attributes:
    digest: of its job.
    method: the method's name.
    seed: of the run.
    columns: names of the columns of `points`.
    points: one row for each evaluation; NaN stands for what was not measured.
  """

  digest: str
  method: str
  seed: int
  columns: tuple[str, ...]
  points: tuple[tuple[float, ...], ...]

  def column(self, name: str) -> list[float]:
    """The values of one column, in the order of the evaluations."""
    index = self.columns.index(name)
    return [row[index] for row in self.points]


def plan(experiment: Experiment, methods: Sequence[Method], budget: Budget, seeds: int) -> list[Job]:
  """All runs of an experiment, the first seed of every method first.

  Raises:
    UserError: a method cannot be applied to the experiment's config.
  """
  return [
    Job(method.name, seed, experiment.config_of(method, budget, seed), experiment.probes, experiment.recorded)
    for seed in range(seeds)
    for method in methods
  ]


def write_job(path: pathlib.Path, job: Job) -> None:
  """Writes a job for the process that runs it."""
  data = {
    "method": job.method,
    "seed": job.seed,
    "config": to_dict(job.config),
    "probes": dict(job.probes),
    "recorded": job.recorded,
  }
  replace_text(path, json.dumps(data))


def read_job(path: pathlib.Path) -> Job:
  """Reads what `write_job` wrote."""
  data = json.loads(path.read_text())
  return Job(data["method"], data["seed"], from_dict(data["config"]), data["probes"], tuple(data["recorded"]))


def result_path(folder: pathlib.Path, run: Job | RunResult) -> pathlib.Path:
  """The file of a run's result. It is named after the digest alone, so that experiments in one folder share runs."""
  return folder / f"{run.digest}.json"


def write_result(path: pathlib.Path, result: RunResult) -> None:
  """Writes a result; readers see all of it or nothing."""
  data = dataclasses.asdict(result)
  data["points"] = [[_to_json(value) for value in row] for row in result.points]
  replace_text(path, json.dumps(data, allow_nan=False))


def read_result(path: pathlib.Path, job: Job) -> RunResult | None:
  """A job's result; None if there is none, or if the file is another job's."""
  result = load_result(path)  # A run whose result cannot be read is run again.
  return result if result is not None and result.digest == job.digest else None


def load_result(path: pathlib.Path) -> RunResult | None:
  """The result in a file, whatever its job; None if there is none, or if it cannot be read."""
  try:
    data: dict[str, Any] = json.loads(path.read_text())
    points = tuple(tuple(math.nan if value is None else float(value) for value in row) for row in data["points"])
    result = RunResult(**{**data, "columns": tuple(data["columns"]), "points": points})
    result.column("gradient_steps")
  except (OSError, ValueError, TypeError, KeyError, IndexError):
    return None
  return result


def format_value(value: float) -> str:
  """A value of a curve as text: integers in full, others with six digits, and "" for what was not measured."""
  if not math.isfinite(value):
    return ""
  return str(int(value)) if value.is_integer() else f"{value:.{_VALUE_DIGITS}g}"


def _to_json(value: float) -> float | None:
  return float(format_value(value)) if math.isfinite(value) else None

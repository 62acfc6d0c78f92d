"""Run directories and experiments' folders made by hand, as runs leave them."""

import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from configs import RunConfig, load_config, override
from configs.methods import apply_method
from experiments.curves import curves_csv
from experiments.jobs import RunResult, write_result
from launch.run_directory import create_run_directory
from tests.experiments.tiny import make_experiment

HEADER = "environment_steps,gradient_steps,train_return,eval_return,eval_solved"


def make_config(method: str = "sset", **overrides: str) -> RunConfig:
  """Three rooms by a method, with fields changed: `learner__learning_rate="0.1"`, `_method=""`."""
  config = apply_method(load_config("three_rooms"), method)
  return override(config, {path.removeprefix("_").replace("__", "."): value for path, value in overrides.items()})


def store_run(
  root: pathlib.Path, config: RunConfig, returns: Sequence[float] = (), phase: str = "exhausted", goal: float = 0.0
) -> pathlib.Path:
  """A run directory with an evaluation after every 100 environment steps, solved above `goal`; long since written."""
  run = create_run_directory(config, root)
  rows = [f"{100 * i},{10 * i},{value - 1},{value},{int(value > goal)}" for i, value in enumerate(returns, start=1)]
  (run.path / "metrics.csv").write_text("\n".join([HEADER, *rows, ""]))
  store_status(run.path, phase, 100 * len(returns))
  return run.path


def store_status(run: pathlib.Path, phase: str, environment_steps: int, **fields: Any) -> None:
  status = {"phase": phase, "environment_steps": environment_steps, "gradient_steps": environment_steps // 10, **fields}
  (run / "status.json").write_text(json.dumps(status))
  age(run / "status.json")


def age(path: pathlib.Path) -> None:
  """As if it had been written an hour ago."""
  hour_ago = time.time() - 3600
  os.utime(path, (hour_ago, hour_ago))


def store_experiment(folder: pathlib.Path, results: Sequence[RunResult], listed: bool = True) -> None:
  """An experiment's folder, with its CSV or, as after an interruption, with the files of its runs alone."""
  (folder / "runs").mkdir(parents=True)
  for result in results:
    write_result(folder / "runs" / f"{result.digest}.json", result)
  if listed:
    methods: dict[str, list[RunResult]] = {}
    for result in results:
      methods.setdefault(result.method, []).append(result)
    experiment = make_experiment(probes={}, recorded=(), panels=())
    (folder / "tiny.csv").write_text(curves_csv(experiment, methods))

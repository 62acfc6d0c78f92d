"""An experiment of seconds, and results made by hand."""

import dataclasses
from collections.abc import Mapping, Sequence

from configs import RunConfig, load_config, override
from experiments.definition import Budget, Experiment, Panel, Threshold, eval_measure, known_method
from experiments.jobs import RunResult

CONFIG = override(
  load_config("three_rooms"),
  {
    "environment.name": "tests.measured_world:Measured",
    "environment.arguments.room_size": "2",
    "environment.arguments.time_limit": "100",
    "replay.default.min_size": "200",
    "actor.random_steps": "200",
    "learner.updates_per_block": "8",
    "evaluator.period_updates": "64",
  },
)
BUDGET = Budget(steps=320, seeds=2)


def make_experiment(config: RunConfig = CONFIG, **changes: object) -> Experiment:
  experiment = Experiment(
    name="tiny",
    summary="rooms of two cells",
    config=config,
    methods=(known_method("uniform", "Uniform ER"), known_method("sset", "SSET")),
    budgets={"quick": BUDGET},
    panels=(Panel("summed_q", "summed Q"), Panel("eval_return", "return")),
    thresholds=(Threshold("eval_solved", 1.0, "the goal"),),
    probes={"summed_q": "experiments.probes:summed_q"},
    recorded=("train_return", eval_measure("way")),
  )
  return dataclasses.replace(experiment, **changes)  # type: ignore[arg-type]  # Any field may be changed.


def make_columns(columns: Mapping[str, Sequence[float]], method: str = "uniform", seed: int = 0) -> RunResult:
  """A run with an evaluation every 100 gradient steps, and these columns."""
  count = len(next(iter(columns.values())))
  points = zip((100.0 * index for index in range(1, count + 1)), *columns.values(), strict=True)
  return RunResult("0123456789ab", method, seed, ("gradient_steps", *columns), tuple(points))


def make_result(returns: Sequence[float], method: str = "uniform", seed: int = 0, period: int = 100) -> RunResult:
  """A run with an evaluation every `period` gradient steps, solved where its return is positive."""
  columns = ("environment_steps", "gradient_steps", "eval_return", "eval_length", "eval_solved")
  points = tuple(
    (10.0 * period * index, float(period * index), value, 5.0, float(value > 0))
    for index, value in enumerate(returns, start=1)
  )
  return RunResult("0123456789ab", method, seed, columns, points)

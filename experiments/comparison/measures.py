"""What is measured of every group: its curve, its level at the end, and when its runs were solved."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from configs import UserError
from configs.errors import name_hint
from experiments import statistics
from experiments.comparison.grouping import Group
from experiments.jobs import RunResult
from experiments.statistics import Comparison, Estimate
from launch.stored_run import StoredRun

X_COLUMNS = ("environment_steps", "gradient_steps")
# What every row counts or times is no curve.
_NO_CURVES = {*X_COLUMNS, "seconds", "policy_version", "episodes"}
# A run ends by itself with one of these phases.
ENDED = ("solved", "exhausted")
_MOST_POINTS = 200
_RUN_COLUMNS = ("gradient_steps", "value")

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
  """One run's curve.

  Attributes:
    run: whose it is.
    x: [points].
    y: [points].
  """

  run: StoredRun
  x: Array
  y: Array


@dataclasses.dataclass(frozen=True)
class GroupCurve:
  """The curve of a group.

  Attributes:
    group: whose it is.
    lines: of the runs that count and have any points.
    others: of the runs that do not count; see `counted_runs`.
    x: [points], from where all lines have begun to where the first one ends; empty if there is no such part.
    mean: [points], over lines, which are straight between their points.
    low: [points], the lower edge of the interval of the mean; NaN for one line, and where all lines are equal.
    high: [points], the upper edge.
  """

  group: Group
  lines: tuple[Line, ...]
  others: tuple[Line, ...]
  x: Array
  mean: Array
  low: Array
  high: Array

  @property
  def cut_off_by(self) -> StoredRun | None:
    """The run at whose end the mean ends, if others go on for more than a tenth of the longest; None otherwise."""
    if len(self.lines) < 2:
      return None
    shortest = min(self.lines, key=lambda line: float(line.x[-1]))
    longest = max(float(line.x[-1]) for line in self.lines)
    return shortest.run if shortest.x[-1] < 0.9 * longest else None


@dataclasses.dataclass(frozen=True)
class Summary:
  """A group in numbers.

  Attributes:
    group: whose they are.
    levels: of each run with points, the mean of its curve over the last quarter of its steps.
    mean: of the levels; None if there are none.
    interquartile_mean: of the levels; None likewise.
    difference: of the means, group less reference; None for the reference itself, and where one of them has no levels.
    improvement: probability that a run of this group has a higher level than one of the reference; None likewise.
    solved: number of runs that were solved; None if no run that counts has a goal.
    steps_to_solve: environment steps until a run was solved, compared with the reference's; a run that was not counts with all
      its steps. None if they have no goal.
  """

  group: Group
  levels: tuple[float, ...]
  mean: Estimate | None
  interquartile_mean: Estimate | None
  difference: Estimate | None
  improvement: Estimate | None
  solved: int | None
  steps_to_solve: Comparison | None


def check_curve(name: str, x: str, runs: Sequence[StoredRun]) -> None:
  """Raises a `UserError` if no run has values of the curve; the sentence names the nearest, or all."""
  known = list(dict.fromkeys(column for run in runs for column in run.columns if column not in _NO_CURVES))
  known = [column for column in known if any(len(run.curve(x, column)[0]) for run in runs)]
  if not known:
    raise UserError(f"No run has any curve over {x}: wait for the first evaluation, or name other runs.")
  if name not in known:
    raise UserError(f"No run has a curve {name!r}: {name_hint(name, known)}")


def counted_runs(groups: Sequence[Group]) -> list[StoredRun]:
  """The runs of one world that count in means and tables: those that ended by themselves; all, if none did.

  A run that was killed, or goes on, says nothing about how a run ends, or when it would have been solved.
  """
  runs = [run for group in groups for run in group.runs]
  return [run for run in runs if run.phase in ENDED] or runs


def curve_of(group: Group, x: str, name: str, counted: Sequence[StoredRun]) -> GroupCurve:
  """A group's curve.

  Args:
    group: of runs.
    x: one of `X_COLUMNS`.
    name: of the column that is drawn.
    counted: the runs whose mean it is, in this group and others.
  """
  lines = [Line(run, *run.curve(x, name)) for run in group.runs]
  drawn = tuple(line for line in lines if len(line.x))
  mine = tuple(line for line in drawn if any(line.run is run for run in counted))
  others = tuple(line for line in drawn if line not in mine)
  grid = _grid(mine)
  if not len(grid):
    return GroupCurve(group, mine, others, grid, grid, grid, grid)
  results = [_result(grid, np.interp(grid, line.x, line.y)) for line in mine]
  mean = statistics.curve(results, "value", "interval")
  return GroupCurve(group, mine, others, mean.steps, mean.mean, mean.low, mean.high)


def summarise(curve: GroupCurve, reference: GroupCurve, counted: Sequence[StoredRun]) -> Summary:
  """A group in numbers, compared with a reference, which may be the group itself.

  Args:
    curve: of the group.
    reference: the curve of the group with which it is compared.
    counted: the runs that count; those of other groups are ignored.
  """
  levels, others = (tuple(_level(line) for line in item.lines) for item in (curve, reference))
  ours, theirs = np.array(levels), np.array(others)
  ours_to_solve, theirs_to_solve = (_steps_to_solve(item.group, counted) for item in (curve, reference))
  compared = curve.group != reference.group and len(ours) > 0 and len(theirs) > 0
  return Summary(
    group=curve.group,
    levels=levels,
    mean=statistics.mean_of(levels) if levels else None,
    interquartile_mean=statistics.interquartile_mean(ours) if levels else None,
    difference=statistics.difference_of_means(ours, theirs) if compared else None,
    # That of fewer, with the two exchanged.
    improvement=statistics.probability_of_fewer(theirs, ours) if compared else None,
    solved=sum(bool(run.solved) for run in curve.group.runs) if ours_to_solve else None,
    steps_to_solve=_compare_steps(ours_to_solve, theirs_to_solve if curve.group != reference.group else []),
  )


def _grid(lines: Sequence[Line]) -> Array:
  if not lines:
    return np.empty(0)
  start, end = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
  points: Array = np.unique(np.concatenate([line.x for line in lines]))
  points = points[(points >= start) & (points <= end)]
  return points if len(points) <= _MOST_POINTS else np.linspace(start, end, _MOST_POINTS)


def _result(x: Array, y: Array) -> RunResult:
  """A curve in the form that `experiments.statistics` takes, in which x stands for gradient steps."""
  return RunResult("", "", 0, _RUN_COLUMNS, tuple(zip(map(float, x), map(float, y), strict=True)))


def _level(line: Line) -> float:
  return statistics.late_mean(_result(line.x, line.y), "value")


def _steps_to_solve(group: Group, counted: Sequence[StoredRun]) -> list[float]:
  """Of each run with a goal, the environment steps until it was solved, or all its steps if it was not.

  A run that was solved counts in any case: whatever happened to it later changes nothing in that.
  """
  return [
    float(run.solved_at if run.solved else run.environment_steps or 0)
    for run in group.runs
    if run.solved_at is not None and (run.solved or any(run is other for other in counted))
  ]


def _compare_steps(ours: Sequence[float], theirs: Sequence[float]) -> Comparison | None:
  if not ours:
    return None
  return statistics.compare(ours, theirs or None, math.ceil(max([*ours, *theirs])))

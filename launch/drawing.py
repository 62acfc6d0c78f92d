"""The diagrams that a run leaves when it ends: its learning curve and its importance weights.

`launch.finish` imports this module when a run has ended: matplotlib takes a second, which every role would spend at its start.
"""

import json
import math
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from configs.sealed_folder import numbered_folders
from launch.report import LEARNING_CURVE_FILE, LOG_RATIOS_FILE
from launch.stored_run import current_rows, solved_at
from replay_server.process.recorder import METRICS_FILE, Row, read_metrics

# From Okabe and Ito's palette, whose colours people with any kind of colour vision can tell apart.
EVALUATOR_COLOUR = "#0072B2"
TRAIN_COLOUR = "#E69F00"
SOLVED_COLOUR = "#009E73"

# Of a learner's checkpoint, what its source keeps (`learner.checkpoint`), and what ReF-ER's follower keeps there.
_CHECKPOINT, _SOURCE_FILE = re.compile(r"checkpoint_(\d+)"), "source.npz"
_FOLLOWER = "closeness"


def tidy(axes: Axes) -> None:
  """Draws a light grid behind what is shown, and no frame above and at the right."""
  axes.grid(color="0.9")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)


def save_learning_curve(run_dir: pathlib.Path) -> pathlib.Path:
  """Saves `draw_learning_curve(run_dir)` as the run's `learning_curve.png`; returns its path."""
  path = run_dir / LEARNING_CURVE_FILE
  draw_learning_curve(run_dir).savefig(path)
  return path


def draw_learning_curve(run_dir: pathlib.Path) -> Figure:
  """Draws the returns in the run's `metrics.csv` against environment steps; says so if there are none.

  Args:
    run_dir: the run directory. Its `config.json`, if there is one, gives the title and what counts as solved.
  """
  rows = current_rows(read_metrics(run_dir / METRICS_FILE))
  name, solved_evaluations = _name_and_goal(run_dir)
  figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
  axes = figure.add_subplot()
  _draw_returns(axes, rows)
  axes.set_xlim(left=0)
  _mark_solved(axes, rows, solved_evaluations)
  axes.set_title(name, loc="left", fontweight="bold")
  axes.set_xlabel("environment steps")
  axes.set_ylabel("undiscounted return per episode")
  axes.xaxis.set_major_formatter(EngFormatter(sep=""))
  tidy(axes)
  return figure


def save_log_ratios(run_dir: pathlib.Path) -> pathlib.Path | None:
  """Saves a histogram of the log importance weights in the learner's last checkpoint as the run's `log_ratios.png`.

  Args:
    run_dir: the run directory.

  Returns:
    Its path; None for a run whose rows do not hold their behaviour.
  """
  folders = numbered_folders(run_dir / "checkpoints" / "learner", _CHECKPOINT)
  if not folders:
    return None
  with np.load(folders[max(folders)] / _SOURCE_FILE) as state:
    if f"{_FOLLOWER}/log_ratio_counts" not in state:
      return None
    counts, edges, largest = (
      state[f"{_FOLLOWER}/{name}"] for name in ("log_ratio_counts", "log_ratio_edges", "largest_ratio")
    )
  path = run_dir / LOG_RATIOS_FILE
  draw_log_ratios(counts, edges, float(largest), _name_and_goal(run_dir)[0]).savefig(path)
  return path


def draw_log_ratios(counts: npt.NDArray[np.int64], edges: npt.NDArray[np.float64], largest: float, name: str) -> Figure:
  """Draws how many steps of a memory have which importance weight, and which of them are far-policy (ReF-ER, Section 3).

  Args:
    counts: int64 [bins]; the first and last bin also hold what lies beyond.
    edges: float64 [bins + 1], of log rho.
    largest: c_max.
    name: of the run.
  """
  figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
  axes = figure.add_subplot()
  shares = counts / max(1, counts.sum())
  axes.stairs(shares, edges, fill=True, color=EVALUATOR_COLOUR)
  for limit in (-math.log(largest), math.log(largest)):
    axes.axvline(limit, color=TRAIN_COLOUR, linewidth=1.2, linestyle="--")
  axes.set_yscale("log")
  axes.set_title(name, loc="left", fontweight="bold")
  axes.set_title(f"c_max {largest:.3g}, {counts.sum():,} steps in memory", loc="right", fontsize="medium")
  axes.set_xlabel("log π(a|s) - log μ(a|s), as last computed; beyond the dashed lines a step is far-policy")
  axes.set_ylabel("share of steps")
  tidy(axes)
  return figure


def _name_and_goal(run_dir: pathlib.Path) -> tuple[str, int]:
  """The run's name, and the number of solved evaluations in a row that ends it (0 if that is unknown)."""
  try:
    # Not as a RunConfig, so that the curve of a run of another version can be drawn.
    config = json.loads((run_dir / "config.json").read_text())
    return str(config["name"]), int(config["evaluator"]["solved_evaluations"])
  except (OSError, ValueError, KeyError, TypeError):
    return run_dir.resolve().name, 0


def _points(rows: Sequence[Row], column: str) -> tuple[list[float], list[float]]:
  """Environment steps and the values of `column`, where there is one."""
  pairs = [(row["environment_steps"], row.get(column)) for row in rows]
  points = [(steps, value) for steps, value in pairs if steps is not None and value is not None]
  return [steps for steps, _ in points], [value for _, value in points]


def _draw_returns(axes: Axes, rows: Sequence[Row]) -> None:
  train_steps, train_returns = _points(rows, "recent_return")
  eval_steps, eval_returns = _points(rows, "eval_return")
  if train_steps:
    label = "training (mean of the last 100 episodes)"
    axes.plot(train_steps, train_returns, color=TRAIN_COLOUR, linewidth=1.8, label=label, marker=_marker(train_steps))
  if eval_steps:
    label = "evaluator (greedy policy)"
    axes.plot(eval_steps, eval_returns, color=EVALUATOR_COLOUR, linewidth=1.8, label=label, marker=_marker(eval_steps))
  if train_steps or eval_steps:
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
  else:
    axes.text(0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color="0.4")
    axes.set(xticks=[], yticks=[])


def _marker(points: Sequence[float]) -> str:
  """Marks the points of short lines: a single point is invisible without a marker, and many markers make a band."""
  return "o" if len(points) <= 3 else ""


def _mark_solved(axes: Axes, rows: Sequence[Row], solved_evaluations: int) -> None:
  steps = solved_at(rows, solved_evaluations)
  if steps is None:
    return
  axes.axvline(steps, color=SOLVED_COLOUR, linewidth=1.2, linestyle="--")
  # Above the axes, where no curve runs through it.
  axes.set_title(f"solved at {steps:,.0f} steps", loc="right", fontsize="medium", color=SOLVED_COLOUR)

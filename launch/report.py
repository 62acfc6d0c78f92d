"""What a run leaves when it ends: a learning curve, pictures, a summary for the user, and a line for scripts."""

import functools
import json
import math
import pathlib
import re
import shlex
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from PIL import Image

from configs.sealed_folder import numbered_folders
from launch.stored_run import current_rows, solved_at
from launch.view.formats import format_duration, format_number, format_restarts
from replay_server.contract.status import RunStatus
from replay_server.process.recorder import METRICS_FILE, TENSORBOARD_FOLDER, Row, read_metrics

LEARNING_CURVE_FILE = "learning_curve.png"
LOG_RATIOS_FILE = "log_ratios.png"
GREEDY_PATH_FILE = "greedy_path.png"
GREEDY_VIDEO_FILE = "videos/greedy_path.gif"

# Listed in the summary if they exist.
_FILES = (
  ("learning curve", LEARNING_CURVE_FILE),
  ("importance weights", LOG_RATIOS_FILE),
  ("greedy path", GREEDY_PATH_FILE),
  ("greedy video", GREEDY_VIDEO_FILE),
  ("checkpoints", "checkpoints"),
  ("metrics", METRICS_FILE),
  ("TensorBoard", TENSORBOARD_FOLDER),
)
# From Okabe and Ito's palette, whose colours people with any kind of colour vision can tell apart.
EVALUATOR_COLOUR = "#0072B2"
TRAIN_COLOUR = "#E69F00"
SOLVED_COLOUR = "#009E73"
# Of an episode, for its picture and for that picture's background.
_MAX_PICTURE_FRAMES, _MAX_STILL_FRAMES = 128, 33
_CHANGED = 16  # Of 255 per channel: lossy or antialiased rendering changes a still background by less.

# Of a learner's checkpoint, what its source keeps (`learner.checkpoint`), and what ReF-ER's follower keeps there.
_CHECKPOINT, _SOURCE_FILE = re.compile(r"checkpoint_(\d+)"), "source.npz"
_FOLLOWER = "closeness"

Frame = npt.NDArray[np.uint8]  # [height, width, 3]


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
  axes.grid(color="0.9")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
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
  axes.grid(color="0.9")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
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


def summarise(status: RunStatus, run_dir: pathlib.Path, inline: bool = False) -> str:
  """A few lines for the user: how the run ended, where its files are, and what to do next."""
  last = status.evaluations[-1] if status.evaluations else None
  lines = [
    _verdict(status),
    f"  {status.environment_steps:,} environment steps, {status.gradient_steps:,} gradient steps, "
    f"{status.episodes:,} episodes in {format_duration(status.wall_seconds)}"
    f"{f', {format_restarts(status)}' if status.restarts else ''}",
    f"  last evaluation: {f'return {format_number(last.mean_return)}' if last else 'none'}, "
    f"training: {'no episode' if status.recent_return is None else f'return {format_number(status.recent_return)}'}",
  ]
  if last is not None and last.measures:
    means = (f"{name} {format_number(mean)}" for name, mean in last.measures.items())
    lines.append(f"  its measures: {', '.join(means)}")
  lines += [f"  {label}: {run_dir / name}" for label, name in _FILES if (run_dir / name).exists()]
  advice = _advice(status, run_dir, inline)
  if advice:
    lines += ["What to do next:", *(f"  - {sentence}" for sentence in advice)]
  return "\n".join(lines)


def _verdict(status: RunStatus) -> str:
  at = f"{status.environment_steps:,} of {status.environment_steps_budget:,} environment steps"
  if status.phase == "solved":
    return f"{status.name} is solved: {status.solved_streak} evaluations in a row."
  goal = f": {status.solved_streak} of {status.solved_evaluations} solved evaluations in a row"
  if status.phase == "exhausted":
    return (
      f"{status.name} is not solved{goal}." if _has_goal(status) else f"{status.name} is done: its budget is used up."
    )
  return f"{status.name} was stopped at {at}{goal if _has_goal(status) else ''}."


def _has_goal(status: RunStatus) -> bool:
  return status.solved_evaluations > 0


def _advice(status: RunStatus, run_dir: pathlib.Path, inline: bool) -> list[str]:
  """What to do about a run that missed its goal, or was stopped, the likeliest cause first."""
  if status.phase == "solved" or (status.phase == "exhausted" and not _has_goal(status)):
    return []
  resume = f"slipstream train --resume={shlex.quote(str(run_dir))}{' --inline' if inline else ''}"
  # The first table is the default table. Each algorithm explores in its own way, so only common fields are named.
  advice = [
    f"Event table {table.name!r} is empty because its event never happened: check its condition with 'slipstream events', "
    "or let the workers explore more (--config.actor.random_steps, or the algorithm's own fields in docs/algorithms.md)."
    for table in status.tables[1:]
    if table.size == 0
  ]
  if status.gradient_steps == 0:
    advice.append(
      "The learner made no gradient step: lower --config.replay.default.min_size or read the learner's log."
    )
  if not status.evaluations and _has_goal(status):
    advice.append(
      "No evaluation finished before the end: give the run more steps, or evaluate more often, and check that it has an "
      "evaluator (--config.evaluator.enabled=true)."
    )
  if status.phase == "exhausted":
    more = 2 * status.environment_steps_budget
    advice.append(f"Give it more steps, from where it stopped: {resume} --config.environment_steps={more}")
    advice.append(f"See whether it was still learning: {run_dir / LEARNING_CURVE_FILE}")
  else:
    advice.append(f"Go on from where it stopped: {resume}")
  return advice


def result_line(status: RunStatus, run_dir: pathlib.Path) -> str:
  """One line for scripts: "RESULT " and a JSON object, with null for what was not measured."""
  last = status.evaluations[-1].mean_return if status.evaluations else None
  result = {
    "solved": status.phase == "solved",
    "environment_steps": status.environment_steps,
    "gradient_steps": status.gradient_steps,
    "wall_seconds": round(status.wall_seconds, 3) if math.isfinite(status.wall_seconds) else None,
    "eval_return": last if last is not None and math.isfinite(last) else None,
    "run_dir": str(run_dir),
    "phase": status.phase,
    "run_id": status.run_id,
  }
  return f"RESULT {json.dumps(result, allow_nan=False)}"


def _spread(frames: Sequence[Frame], most: int) -> list[Frame]:
  """At most so many of the frames, the first and the last among them, at even distances."""
  return [frames[index] for index in np.linspace(0, len(frames) - 1, min(len(frames), most)).round().astype(int)]


def path_picture(frames: Sequence[Frame]) -> Frame:
  """An episode in one picture: whatever moves, drawn over the still background, fainter the earlier it was there.

  Args:
    frames: of one episode, in order.

  Raises:
    ValueError: there are no frames, or they differ in shape.
  """
  if not frames:
    raise ValueError("There are no frames.")
  # Whatever moves covers a pixel in few frames, so the median is the background. A partition keeps it in uint8.
  still = np.stack(_spread(frames, _MAX_STILL_FRAMES))
  background = np.partition(still, len(still) // 2, axis=0)[len(still) // 2]
  picture = background.astype(np.float32)
  picked = _spread(frames, _MAX_PICTURE_FRAMES)
  for frame, alpha in zip(picked, np.linspace(0.25, 1.0, len(picked)), strict=True):
    difference = np.maximum(frame, background) - np.minimum(frame, background)  # In uint8, which is fast.
    moves = functools.reduce(np.logical_or, np.moveaxis(difference > _CHANGED, -1, 0))
    picture[moves] = (1 - alpha) * picture[moves] + alpha * frame[moves]
  result: Frame = picture.round().astype(np.uint8)
  return result


def greedy_path_png(frames: Sequence[Frame], path: pathlib.Path) -> pathlib.Path:
  """Saves `path_picture(frames)`; returns `path`."""
  Image.fromarray(path_picture(frames)).save(path, format="PNG")
  return path


def greedy_path_gif(frames: Sequence[Frame], path: pathlib.Path, frames_per_second: float = 10.0) -> pathlib.Path:
  """Saves an episode as an animation that pauses on its last frame before it repeats; returns `path`.

  Args:
    frames: of one episode, in order.
    path: of the GIF.
    frames_per_second: speed of the animation; viewers show at most 50.

  Raises:
    ValueError: there are no frames.
  """
  if not frames:
    raise ValueError("There are no frames.")
  # An octree finds a frame's colours in a quarter of the time that the default takes, and misses them by 1 of 255 in the mean.
  first, *others = [Image.fromarray(frame).quantize(method=Image.Quantize.FASTOCTREE) for frame in frames]
  durations_ms = [round(1000 / frames_per_second)] * len(others) + [1500]
  first.save(path, format="GIF", save_all=True, append_images=others, duration=durations_ms, loop=0)
  return path

"""What a run leaves for people when it ends: a curve, pictures, a summary, and a line for scripts."""

import json
import math
import pathlib
import shlex
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from PIL import Image

from launch.view import format_duration, format_number
from replay_server.contract.status import RunStatus
from replay_server.process.recorder import METRICS_FILE, TENSORBOARD_FOLDER, Row, read_metrics

LEARNING_CURVE_FILE = "learning_curve.png"
GREEDY_PATH_FILE = "greedy_path.png"
GREEDY_VIDEO_FILE = "videos/greedy_path.gif"

# In the summary, where they exist.
_LEFT_BEHIND = (
  ("learning curve", LEARNING_CURVE_FILE),
  ("greedy path", GREEDY_PATH_FILE),
  ("greedy video", GREEDY_VIDEO_FILE),
  ("checkpoints", "checkpoints"),
  ("metrics", METRICS_FILE),
  ("TensorBoard", TENSORBOARD_FOLDER),
)
# Of Okabe and Ito's palette: told apart with every kind of colour vision.
_EVALUATOR_COLOUR = "#0072B2"
_TRAIN_COLOUR = "#E69F00"
_SOLVED_COLOUR = "#009E73"
_MAX_PICTURE_FRAMES = 128  # bounds the memory that the median takes
_CHANGED = 16  # of 255 per channel, above what lossy or antialiased rendering makes of a still background


def plot_learning_curve(run_dir: pathlib.Path) -> pathlib.Path:
  """Draws `learning_curve.png` from the run's `metrics.csv`: returns against environment steps.

  Args:
    run_dir: of the run. Its `config.json`, where there is one, gives the title and what counts as solved.

  Returns:
    The picture's path. A run without any evaluation or episode gets a picture that says so.
  """
  rows = _without_superseded(read_metrics(run_dir / METRICS_FILE))
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
  path = run_dir / LEARNING_CURVE_FILE
  figure.savefig(path)
  return path


def _name_and_goal(run_dir: pathlib.Path) -> tuple[str, int]:
  """The run's name, and the solved evaluations in a row that end it (0 where that is not known)."""
  try:
    # Not as a RunConfig: a curve can be drawn for a run of another version.
    config = json.loads((run_dir / "config.json").read_text())
    return str(config["name"]), int(config["evaluator"]["solved_evaluations"])
  except (OSError, ValueError, KeyError, TypeError):
    return run_dir.resolve().name, 0


def _without_superseded(rows: Sequence[Row]) -> list[Row]:
  """The rows without those that a resumed run, which starts at an older checkpoint, went through again."""
  kept: list[Row] = []
  first_later_steps = math.inf
  for row in reversed(rows):
    steps = row.get("environment_steps")
    if steps is not None and steps <= first_later_steps:
      kept.append(row)
      first_later_steps = steps
  return kept[::-1]


def _points(rows: Sequence[Row], column: str) -> tuple[list[float], list[float]]:
  """Environment steps and the values of `column`, where there is one."""
  pairs = [(row["environment_steps"], row.get(column)) for row in rows]
  points = [(steps, value) for steps, value in pairs if steps is not None and value is not None]
  return [steps for steps, _ in points], [value for _, value in points]


def _draw_returns(axes: Axes, rows: Sequence[Row]) -> None:
  train_steps, train_returns = _points(rows, "train_return")
  eval_steps, eval_returns = _points(rows, "eval_return")
  if train_steps:
    label = "training (mean of the last 100 episodes)"
    axes.plot(train_steps, train_returns, color=_TRAIN_COLOUR, linewidth=1.8, label=label, marker=_marker(train_steps))
  if eval_steps:
    label = "evaluator (greedy policy)"
    axes.plot(eval_steps, eval_returns, color=_EVALUATOR_COLOUR, linewidth=1.8, label=label, marker=_marker(eval_steps))
  if train_steps or eval_steps:
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
  else:
    axes.text(0.5, 0.5, "no episode has ended yet", transform=axes.transAxes, ha="center", color="0.4")
    axes.set(xticks=[], yticks=[])


def _marker(points: Sequence[float]) -> str:
  """A line of one point is invisible without a marker, and one of many a band with it."""
  return "o" if len(points) <= 3 else ""


def _mark_solved(axes: Axes, rows: Sequence[Row], solved_evaluations: int) -> None:
  steps = _solved_at(rows, solved_evaluations)
  if steps is None:
    return
  axes.axvline(steps, color=_SOLVED_COLOUR, linewidth=1.2, linestyle="--")
  # Above the axes, where no curve runs through it.
  axes.set_title(f"solved at {steps:,.0f} steps", loc="right", fontsize="medium", color=_SOLVED_COLOUR)


def _solved_at(rows: Sequence[Row], solved_evaluations: int) -> float | None:
  """The environment steps at the evaluation that made `solved_evaluations` solved ones in a row; None for 0 of them."""
  streak = 0
  for row in rows:
    solved = row.get("eval_solved")
    if solved is None:
      continue
    streak = streak + 1 if solved else 0
    if solved and streak == solved_evaluations:
      return row["environment_steps"]
  return None


def summarise(status: RunStatus, run_dir: pathlib.Path, inline: bool = False) -> str:
  """A few lines for the person who started the run: what became of it, where things lie, what to do next."""
  last = status.evaluations[-1] if status.evaluations else None
  lines = [
    _verdict(status),
    f"  {status.environment_steps:,} environment steps, {status.gradient_steps:,} gradient steps, "
    f"{status.episodes:,} episodes in {format_duration(status.wall_seconds)}",
    f"  last evaluation: {f'return {format_number(last.mean_return)}' if last else 'none'}, "
    f"training: {'no episode' if status.train_return is None else f'return {format_number(status.train_return)}'}",
  ]
  lines += [f"  {label}: {run_dir / name}" for label, name in _LEFT_BEHIND if (run_dir / name).exists()]
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
  """What helps, the likeliest cause first; nothing for a run that reached what it was for."""
  if status.phase == "solved" or (status.phase == "exhausted" and not _has_goal(status)):
    return []
  resume = f"slipstream train --resume={shlex.quote(str(run_dir))}{' --inline' if inline else ''}"
  # The first table holds every transition; the others are the events'.
  advice = [
    f"Event table {table.name!r} is empty: its event never happened, so check its condition, or let the actors explore "
    "more (--config.learner.algorithm.epsilon)."
    for table in status.tables[1:]
    if table.size == 0
  ]
  if status.gradient_steps == 0:
    advice.append(
      "The learner made no gradient step: lower --config.replay.default.min_size or read the learner's log."
    )
  if not status.evaluations and _has_goal(status):
    advice.append(
      "No evaluation came in before the end: give the run more steps, or evaluate more often, and see that it has an "
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
  """One line for scripts: "RESULT " and a JSON object; null stands for what was not measured."""
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


def path_picture(frames: Sequence[np.ndarray]) -> np.ndarray:
  """All of an episode in one picture: what moves, over what stands still, the fainter the earlier.

  Args:
    frames: of one episode, in order, each <uint8>[height, width, 3].

  Returns:
    <uint8>[height, width, 3].

  Raises:
    ValueError: there are no frames, or they differ in shape.
  """
  if not frames:
    raise ValueError("There are no frames.")
  count = min(len(frames), _MAX_PICTURE_FRAMES)
  picked = np.stack([frames[index] for index in np.linspace(0, len(frames) - 1, count).round().astype(int)])
  # Where most of the time nothing is, the median shows the background alone. A partition keeps the bytes bytes.
  background = np.partition(picked, count // 2, axis=0)[count // 2]
  picture = background.astype(np.float32)
  for frame, alpha in zip(picked, np.linspace(0.25, 1.0, count), strict=True):
    difference = np.abs(frame.astype(np.int16) - background).max(axis=-1, keepdims=True)
    picture = np.where(difference > _CHANGED, (1 - alpha) * picture + alpha * frame, picture)
  return picture.round().astype(np.uint8)


def greedy_path_png(frames: Sequence[np.ndarray], path: pathlib.Path) -> pathlib.Path:
  """Saves `path_picture(frames)`; returns `path`."""
  Image.fromarray(path_picture(frames)).save(path, format="PNG")
  return path


def greedy_path_gif(frames: Sequence[np.ndarray], path: pathlib.Path, frames_per_second: float = 10.0) -> pathlib.Path:
  """Saves an episode as an animation that rests on its last frame before it starts again; returns `path`.

  Args:
    frames: of one episode, in order, each <uint8>[height, width, 3].
    path: of the GIF.
    frames_per_second: at which it plays; viewers show at most 50.

  Raises:
    ValueError: there are no frames.
  """
  if not frames:
    raise ValueError("There are no frames.")
  first, *others = [Image.fromarray(frame) for frame in frames]
  durations_ms = [round(1000 / frames_per_second)] * len(others) + [1500]
  first.save(path, format="GIF", save_all=True, append_images=others, duration=durations_ms, loop=0)
  return path

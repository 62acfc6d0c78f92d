"""What a run leaves when it ends: a picture of an episode, a summary for the user, and a line for scripts."""

import functools
import json
import math
import pathlib
import shlex
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from launch.view.formats import format_duration, format_number, format_restarts
from replay_server.contract.status import RunStatus
from replay_server.process.recorder import METRICS_FILE, TENSORBOARD_FOLDER

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
# Of an episode, for its picture and for that picture's background.
_MAX_PICTURE_FRAMES, _MAX_STILL_FRAMES = 128, 33
_CHANGED = 16  # Of 255 per channel: lossy or antialiased rendering changes a still background by less.

Frame = npt.NDArray[np.uint8]  # [height, width, 3]


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

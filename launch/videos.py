"""Animations of greedy episodes while a run goes on, as files and in TensorBoard."""

import contextlib
import pathlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from actors.evaluator import make_greedy_behaviour, play_episode, split_seed
from configs import RunConfig, UserError
from configs.seeding import derive_seed
from environments import EventEnvironment, make_event_environment
from launch import report
from launch.run_directory import RunDirectory
from replay_server.contract.policy import PolicySnapshot
from replay_server.process.recorder import TENSORBOARD_FOLDER, BoardLog

# A longer episode is cut off, and a larger picture made smaller: an animation takes at most some 2 MB.
MOST_STEPS = 200
MOST_PIXELS = 256
KEPT_VIDEOS = 10
# A folder of its own: TensorBoard reads one event file of a folder at a time, and the server writes to the folder above.
VIDEOS_BOARD = f"{TENSORBOARD_FOLDER}/videos"
TAG = "greedy_episode"

_NAME = re.compile(r"steps_(\d+)\.gif")
# TensorBoard shows the last ten pictures of a tag, so older event files are not needed.
_KEPT_BOARDS = 2


def require_picture(config: RunConfig, frame: Any) -> report.Frame:
  """`frame`, if it is a picture, uint8 [H, W, 3].

  Raises:
    UserError: the environment rendered something else.
  """
  if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
    raise _blind(config)
  return frame


def _blind(config: RunConfig) -> UserError:
  return UserError(
    f"Environment {config.environment.name!r} renders no pictures: let it support render_mode='rgb_array'."
  )


def check_videos(config: RunConfig) -> None:
  """Renders a picture, so that a run that cannot be filmed is refused before it begins; nothing if it is not to be filmed.

  Raises:
    UserError: the environment cannot be made, or renders no pictures.
  """
  if config.evaluator.video_period_seconds is None:
    return
  with contextlib.closing(make_event_environment(config.of_evaluator, seed=0, render=True)) as environment:
    environment.reset()
    try:
      require_picture(config, environment.render())
    except UserError as error:
      # This is how gymnasium's worlds say that they have no `render`.
      raise (_blind(config) if isinstance(error.__cause__, NotImplementedError) else error) from None


class Camera:
  """Films a greedy episode now and then, in an environment of its own. `videos/` keeps the last ones."""

  def __init__(self, config: RunConfig, run: RunDirectory, stop: threading.Event):
    """Makes the environment.

    Args:
      config: of the run, with a `video_period_seconds`.
      run: the run directory.
      stop: ends an episode early when set.

    Raises:
      UserError: the environment cannot be made.
    """
    self._config = config
    self._run = run
    self._stop = stop
    self._period_seconds = config.evaluator.video_period_seconds or 0.0
    self._due = time.monotonic()
    seed, _ = split_seed(derive_seed(config.seed, "camera"))
    self._environment: EventEnvironment = make_event_environment(config.of_evaluator, seed=seed, render=True)
    self._board: BoardLog | None = None
    self._on_board = 0

  def film(self, snapshot: PolicySnapshot, environment_steps: int) -> None:
    """Plays and saves an episode if the period has passed since the last one.

    If the files cannot be written, prints so, and the run goes on.

    Args:
      snapshot: of the policy.
      environment_steps: of the run.

    Raises:
      UserError: the environment failed, or renders no pictures.
      Stopped: asked to stop.
    """
    if time.monotonic() < self._due:
      return
    behaviour = make_greedy_behaviour(self._config, self._environment, snapshot)
    frames = play_episode(self._environment, behaviour, self._stop, self._shrunk, MOST_STEPS).frames
    try:
      self._save(frames, environment_steps)
    except OSError as error:
      with contextlib.suppress(OSError):  # The log may be on the full disk.
        print(f"The video could not be written ({error}): the run goes on; check whether the disk is full.", flush=True)
      self._close_board()
    self._due = time.monotonic() + self._period_seconds

  def _shrunk(self, frame: Any) -> report.Frame:
    image = Image.fromarray(require_picture(self._config, frame))
    image.thumbnail((MOST_PIXELS, MOST_PIXELS))
    return np.asarray(image)

  def _save(self, frames: tuple[report.Frame, ...], environment_steps: int) -> None:
    self._run.videos.mkdir(exist_ok=True)
    path = self._run.videos / f"steps_{environment_steps}.gif"
    partial = path.with_suffix(".partial")
    report.greedy_path_gif(frames, partial)
    partial.replace(path)
    for old in _videos(self._run.videos)[:-KEPT_VIDEOS]:
      old.unlink(missing_ok=True)
    self._show(path.read_bytes(), frames[0], environment_steps)

  def _show(self, animation: bytes, first: report.Frame, environment_steps: int) -> None:
    folder = self._run.path / VIDEOS_BOARD
    if self._board is None or self._on_board >= KEPT_VIDEOS:
      self._close_board()
      self._board = BoardLog(folder, environment_steps)
      for old in sorted(folder.iterdir())[:-_KEPT_BOARDS]:  # Their names begin with the time.
        old.unlink(missing_ok=True)
    self._board.write_animation(TAG, animation, (first.shape[1], first.shape[0]), environment_steps)
    self._board.flush()
    self._on_board += 1

  def _close_board(self) -> None:
    if self._board is not None:
      with contextlib.suppress(OSError):
        self._board.close()
    self._board, self._on_board = None, 0

  def close(self) -> None:
    """Closes the environment and the files."""
    self._environment.close()
    self._close_board()


def _videos(folder: pathlib.Path) -> list[pathlib.Path]:
  """The animations of a run that goes on, oldest first."""
  numbered = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
  return [path for _, path in sorted((int(match[1]), path) for match, path in numbered if match is not None)]


@contextlib.contextmanager
def camera_of(config: RunConfig, run: RunDirectory | None, stop: threading.Event) -> Iterator[Camera | None]:
  """The run's camera; None if the run is not to be filmed, or there is no run directory for its films.

  Raises:
    UserError: the environment cannot be made.
  """
  if config.evaluator.video_period_seconds is None:
    yield None
  elif run is None:
    print("No videos are recorded: give --run_dir, the folder for them.", flush=True)
    yield None
  else:
    with contextlib.closing(Camera(config, run, stop)) as camera:
      yield camera

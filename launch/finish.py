"""The end of a run: pictures, a summary, and the line for scripts."""

import dataclasses
import pathlib
from collections.abc import Callable

from configs.exit_codes import ExitCode
from launch import report
from launch.run_directory import RunDirectory
from launch.stored_policy import find_policy, record_episode
from replay_server.contract.policy import load_snapshot
from replay_server.contract.status import RunStatus


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a run ended.

  Attributes:
    status: the run's last status.
    run_dir: the run directory.
    summary: a few lines for the user.
    result: a line for scripts, "RESULT {json}".
    exit_code: of the command, see `ExitCode`.
  """

  status: RunStatus
  run_dir: pathlib.Path
  summary: str
  result: str
  exit_code: ExitCode

  @property
  def solved(self) -> bool:
    """Whether the run's goal was reached."""
    return self.status.phase == "solved"


def finish(
  status: RunStatus, run: RunDirectory, interruption: ExitCode = ExitCode.DONE, inline: bool = False
) -> Outcome:
  """Draws the learning curve, importance weights and the best policy's greedy path, and summarises the run.

  Args:
    status: the run's last one.
    run: its directory.
    interruption: of the command if a signal ended it, or else `ExitCode.DONE`.
    inline: whether the run was inline.
  """
  from launch import drawing  # Slow to import.

  note = _attempt("learning curve", lambda: drawing.save_learning_curve(run.path))
  note += _attempt("histogram of importance weights", lambda: drawing.save_log_ratios(run.path))
  policy = find_policy(run)
  if policy is not None:
    note += _attempt("picture of the greedy path", lambda: draw_greedy_path(policy, run))
  return Outcome(
    status=status,
    run_dir=run.path,
    summary=report.summarise(status, run.path, inline) + note,
    result=report.result_line(status, run.path),
    exit_code=_exit_code(status, interruption),
  )


def _attempt(what: str, draw: Callable[[], object]) -> str:
  """Draws a picture; returns a line that says why there is none, or ""."""
  try:
    draw()
  except Exception as error:  # A picture that fails must not cost the run its result.
    return f"\n  no {what}: {error}"
  return ""


def _exit_code(status: RunStatus, interruption: ExitCode) -> ExitCode:
  if status.phase == "exhausted" and status.solved_evaluations:
    return ExitCode.UNSOLVED
  return ExitCode.DONE if status.phase in ("solved", "exhausted") else interruption


def draw_greedy_path(policy: pathlib.Path, run: RunDirectory) -> None:
  """Plays one greedy episode and saves it as a picture and an animation.

  Raises:
    UserError: the environment cannot be rendered.
  """
  stored = load_snapshot(policy)
  episode = record_episode(stored.config, stored.snapshot)
  report.greedy_path_png(episode.frames, run.path / report.GREEDY_PATH_FILE)
  run.videos.mkdir(exist_ok=True)
  report.greedy_path_gif(episode.frames, run.path / report.GREEDY_VIDEO_FILE)

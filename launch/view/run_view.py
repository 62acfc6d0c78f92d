"""Shows a run's progress: a live panel on a terminal, a line now and then in a log."""

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from launch.view.formats import PHASE_WORDS, compact, format_duration, format_number, format_rate, format_restarts
from launch.view.panel import render, render_waiting
from replay_server.contract.status import RunStatus

PLAIN_LINE_LENGTH = 160  # characters


def plain_line(status: RunStatus) -> str:
  """The essentials in one line of ASCII, at most `PLAIN_LINE_LENGTH` characters; what does not fit is left out."""
  parts = [
    f"{PHASE_WORDS[status.phase]} {format_duration(status.wall_seconds)}",
    f"env {status.environment_steps:,}/{compact(status.environment_steps_budget)} "
    f"{format_rate(status.environment_steps_per_second)}/s",
    f"learner {status.gradient_steps:,} {format_rate(status.gradient_steps_per_second)}/s",
    _plain_returns(status),
  ]
  dead = [role.name for role in status.roles if not role.alive and not role.ended]
  if dead:
    parts.append(f"not heard: {dead[0]}" + (f" and {len(dead) - 1} more" if len(dead) > 1 else ""))
  if status.hosts_on_plain_port:
    parts.append(f"port {status.plain_port} is open to {status.hosts_on_plain_port[0]}")
  if status.restarts:
    parts.append(format_restarts(status))
  if "loss" in status.learner:
    parts.append(f"loss {format_number(status.learner['loss'])}")
  parts += [f"{table.name} {compact(table.size)}" for table in status.tables]
  line = parts[0]
  for part in parts[1:]:
    if len(line) + 3 + len(part) > PLAIN_LINE_LENGTH:
      break
    line += f" | {part}"
  return line


def _plain_returns(status: RunStatus) -> str:
  last = status.evaluations[-1].mean_return if status.evaluations else None
  returns = f"return train {format_number(status.recent_return)} eval {format_number(last)}"
  if status.solved_evaluations > 0:
    returns += f" solved {status.solved_streak}/{status.solved_evaluations}"
  return returns


class RunView:
  """Shows a run's progress in the form that the output allows.

      with RunView() as view:
        view.waiting("starting the server ...")
        while not status.finished:
          view.update(status)

  On a terminal one panel is redrawn in place, and its last frame stays. Elsewhere `plain_line` is printed at the first
  status, when the phase changes, and every `period_seconds`.
  """

  def __init__(
    self,
    console: Console | None = None,
    quiet: bool = False,
    period_seconds: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Makes a view; nothing is shown yet.

    Args:
      console: to print to; None is standard output.
      quiet: show nothing but messages.
      period_seconds: between two plain lines.
      clock: gives seconds since any fixed moment.
    """
    # Bound to the present standard output, which is redirected during a run.
    self._console = console or Console(file=sys.stdout)
    self._quiet = quiet
    self._period_seconds = period_seconds
    self._clock = clock
    self._live: Live | None = None
    self._shown: RunStatus | None = None
    self._shown_at = -math.inf

  def __enter__(self) -> "RunView":
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    self.close()

  def waiting(self, text: str) -> None:
    """Shows what the run is waiting for, while there is no status."""
    if self._quiet:
      return
    if self._redraws:
      self._draw(render_waiting(text))
    else:
      self.message(text)

  def update(self, status: RunStatus) -> None:
    """Shows a newer status."""
    if self._quiet:
      return
    if self._redraws:
      self._draw(render(status))
      self._shown = status
    elif self._is_due(status):
      self.message(plain_line(status))
      self._shown, self._shown_at = status, self._clock()

  def message(self, text: str) -> None:
    """Prints a text, above the panel if there is one."""
    # Soft wrap, so that a line of a log or a path to copy stays one line.
    self._console.print(text, markup=False, highlight=False, soft_wrap=True)

  def close(self) -> None:
    """Ends the live panel and leaves its last frame; may be called twice."""
    if self._live is None:
      return
    # Before the first status there is only a spinner, which is erased.
    self._live.transient = self._shown is None
    self._live.stop()
    self._live = None

  @property
  def _redraws(self) -> bool:
    console = self._console
    # The panel needs block characters; with another encoding printing them would raise.
    return console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")

  def _is_due(self, status: RunStatus) -> bool:
    changed = self._shown is None or self._shown.phase != status.phase
    return changed or self._clock() - self._shown_at >= self._period_seconds

  def _draw(self, renderable: RenderableType) -> None:
    if self._live is None:
      self._live = Live(
        console=self._console,
        refresh_per_second=4,
        redirect_stdout=False,
        # Rich would print it to the console, which is wrong if standard error goes to a file.
        redirect_stderr=sys.stderr.isatty(),
      )
      self._live.start()
    # An empty line for the cursor: a ^C that the terminal echoes would otherwise break the panel's last line.
    self._live.update(Group(renderable, Text()))

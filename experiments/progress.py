"""Shows an experiment's progress: a bar with the time left on a terminal, a line for each run elsewhere."""

import math
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from experiments import pool
from experiments.jobs import Job
from launch.view.formats import format_duration


class ProgressView:
  """Shows how far an experiment's runs are; a context manager."""

  def __init__(
    self,
    name: str,
    total: int,
    waiting: int,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Makes a view; nothing is shown yet.

    Args:
      name: of the experiment.
      total: number of runs of the experiment.
      waiting: how many of them are still to be done.
      console: to print to; None is standard output.
      clock: gives seconds since any fixed moment.
    """
    self._console = console or Console(file=sys.stdout)
    self._name = name
    self._total = total
    self._had = total - waiting
    self._ended = 0
    self._clock = clock
    self._began = clock()
    self._under_way = 0.0
    self._waits = False
    self._bar: Progress | None = None
    self._task = TaskID(0)

  def __enter__(self) -> "ProgressView":
    if self._console.is_terminal and not self._console.is_dumb_terminal:
      self._bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[state]}"),
        console=self._console,
      )
      self._task = self._bar.add_task(self._name, total=self._total, state="")
      self._bar.start()
    return self

  def __exit__(self, *_: object) -> None:
    if self._bar is not None:
      self._bar.stop()

  def update(self, progress: pool.Progress) -> None:
    """Shows the present progress."""
    self._under_way = math.fsum(progress.fractions.values())
    waits = not progress.fractions and progress.elsewhere > 0
    if waits and not self._waits:
      runs = f"{progress.elsewhere} runs" if progress.elsewhere > 1 else "a run"
      self.message(f"Waiting for {runs} of other commands.")
    self._waits = waits
    if self._bar is not None:
      done = self._had + self._ended
      state = f"{done} of {self._total} runs, {len(progress.fractions)} under way, {self._left()}"
      self._bar.update(self._task, completed=done + self._under_way, state=state)

  def ended(self, job: Job, sentence: str) -> None:
    """Counts a run that ended; `sentence` says why it failed and is empty if it did not."""
    self._ended += 1
    self._under_way = max(0.0, self._under_way - 1)
    if sentence:
      self.message(f"{job.method}, seed {job.seed}, failed: {sentence}")
    elif self._bar is None:
      done = self._had + self._ended
      self.message(f"{job.method}, seed {job.seed}: done ({done} of {self._total} runs, {self._left()})")

  def message(self, text: str) -> None:
    """Prints a text, above the bar if there is one."""
    self._console.print(text, markup=False, highlight=False, soft_wrap=True)

  def _left(self) -> str:
    seconds = seconds_left(
      self._clock() - self._began,
      self._ended + self._under_way,
      self._total - self._had - self._ended - self._under_way,
    )
    return "time left unknown" if seconds is None else f"{format_duration(seconds)} left"


def seconds_left(elapsed: float, done: float, to_do: float) -> float | None:
  """How long `to_do` runs will take if `done` runs, which need not be whole, took `elapsed` seconds; None if unknown."""
  return elapsed / done * to_do if done > 0.01 else None

"""What is shown while an experiment goes on."""

import io

import pytest
from rich.console import Console

from experiments.jobs import Job
from experiments.pool import Progress
from experiments.progress import ProgressView, seconds_left
from tests.experiments.tiny import CONFIG

JOB = Job("sset", 3, CONFIG, {})


class Clock:
  now = 50.0

  def __call__(self):
    return self.now


def test_the_time_left_follows_from_what_was_done_in_this_call():
  assert seconds_left(60.0, done=1.5, to_do=3.0) == pytest.approx(120.0)
  assert seconds_left(60.0, done=0.0, to_do=3.0) is None


def test_elsewhere_than_on_a_terminal_every_run_that_ends_is_a_line():
  out, clock = io.StringIO(), Clock()
  with ProgressView("tiny", total=6, waiting=4, console=Console(file=out, width=40), clock=clock) as view:
    clock.now += 90
    view.update(Progress({"a": 1.0, "b": 0.5}, waiting=2))
    view.ended(JOB, "")
    view.ended(JOB, "The world is flat.")
  # One and a half of four runs took 90 s.
  assert out.getvalue().splitlines() == [
    "sset, seed 3: done (3 of 6 runs, 2 min 30 s left)",
    "sset, seed 3, failed: The world is flat.",
  ]


def test_it_says_once_that_the_last_runs_are_waited_for():
  out = io.StringIO()
  with ProgressView("tiny", total=6, waiting=4, console=Console(file=out, width=40)) as view:
    view.update(Progress({"a": 0.5}, waiting=2, elsewhere=2))
    assert out.getvalue() == ""
    for _ in range(3):
      view.update(Progress({}, waiting=2, elsewhere=2))
  assert out.getvalue() == "Waiting for 2 runs of other commands.\n"


def test_on_a_terminal_there_is_a_bar_with_the_time_left():
  out, clock = io.StringIO(), Clock()
  console = Console(file=out, force_terminal=True, width=120, color_system=None)
  with ProgressView("tiny", total=6, waiting=4, console=console, clock=clock) as view:
    clock.now += 90
    view.update(Progress({"a": 1.0, "b": 0.5}, waiting=2))
  assert "2 of 6 runs, 2 under way, 2 min 30 s left" in out.getvalue()

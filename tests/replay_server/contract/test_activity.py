"""What a role says of its waits and of its loop, under a clock that the test sets."""

from replay_server.contract.activity import Activity, Wait
from replay_server.contract.progress import HUNG_AFTER_SECONDS, Progress


class _Clock:
  def __init__(self) -> None:
    self.now = 50.0

  def __call__(self) -> float:
    return self.now


def test_a_role_that_does_something_does_not_wait() -> None:
  activity = Activity(_Clock())
  assert (activity.state, activity.wait) == ("starting", None)
  activity.waits("waiting", "server", "it answers")
  activity.does("running")
  assert (activity.state, activity.wait) == ("running", None)


def test_a_wait_on_the_same_one_goes_on_whatever_ends_it() -> None:
  clock = _Clock()
  activity = Activity(clock)
  activity.waits("waiting for rows", "workers", "there are 5 of 10")
  clock.now += 3
  activity.waits("waiting for rows", "workers", "there are 7 of 10")
  clock.now += 1
  assert activity.wait == Wait("workers", "there are 7 of 10", 4.0)


def test_a_wait_on_another_one_begins_anew() -> None:
  clock = _Clock()
  activity = Activity(clock)
  activity.waits("waiting for rows", "workers", "there are rows")
  clock.now += 3
  activity.waits("waiting for the server", "server", "it answers")
  clock.now += 1
  assert activity.wait == Wait("server", "it answers", 1.0)
  assert activity.state == "waiting for the server"


def test_the_age_of_a_round_is_that_of_the_last_note() -> None:
  clock = _Clock()
  progress = Progress(clock=clock)
  clock.now += 5
  assert (progress.age_seconds, progress.allowed_seconds) == (5.0, HUNG_AFTER_SECONDS)
  progress.note()
  assert progress.age_seconds == 0


def test_a_round_may_be_allowed_more_time_and_never_less() -> None:
  progress = Progress(10.0)
  progress.note(600.0)
  assert progress.allowed_seconds == 600.0
  progress.note(1.0)
  assert progress.allowed_seconds == 10.0

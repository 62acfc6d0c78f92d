"""Other threads see which call into a world lasts too long."""

import contextlib
import threading

import gymnasium
import pytest

from configs import EnvironmentConfig, UserError
from environments import EventEnvironment, late_calls
from tests.faulty_world import Faulty
from tests.serving import wait_for


class Waits(Faulty):
  """Waits in `reset` or `step` until it is told to go on."""

  def __init__(self, call):
    super().__init__()
    self.call, self.go_on = call, threading.Event()

  def reset(self, *, seed=None, options=None):
    return self._wait("reset", super().reset())

  def step(self, action):
    return self._wait("step", super().step(action))

  def _wait(self, call, answer):
    if call == self.call:
      assert self.go_on.wait(30)
    return answer


def play(env):
  env.reset()
  env.step(0)


@contextlib.contextmanager
def playing(call, timeout_seconds):
  """An environment that waits in `call`, in a thread of its own."""
  world = Waits(call)
  env = EventEnvironment(
    gymnasium.wrappers.TimeLimit(world, 5), config=EnvironmentConfig("w", timeout_seconds=timeout_seconds)
  )
  thread = threading.Thread(target=play, args=(env,))
  thread.start()
  try:
    yield env
  finally:
    world.go_on.set()
    thread.join(30)
  assert env.late_call() is None


@pytest.mark.parametrize("call", ["reset", "step"])
def test_a_call_that_lasts_longer_than_it_may_is_seen_until_it_returns(call):
  with playing(call, 0.05) as env:
    wait_for(env.late_call)
    late = env.late_call()
    assert late is not None
    assert (late.world, late.call, late.timeout_seconds) == ("w", call, 0.05)
    assert late.seconds > 0.05
    assert str(late) == f"in {call} of the environment 'w' for 0 s"
    assert [(other.call, other.began) for other in late_calls()] == [(call, late.began)]
  assert late_calls() == []


def test_with_0_a_call_may_last_for_ever():
  with playing("step", 0.01) as late, playing("step", 0.0) as patient:
    wait_for(late.late_call)
    assert patient.late_call() is None
    assert len(late_calls()) == 1


def test_a_call_that_raises_is_over():
  env = EventEnvironment(Faulty(in_reset="raise"), config=EnvironmentConfig("w", timeout_seconds=1e-9))
  with pytest.raises(UserError):
    env.reset()
  assert env.late_call() is None

"""Worlds with slow steps, so that the workers of a test leave the cores to processes that start."""

import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.wrappers import TimeLimit

from slipstream import ThreeRooms

STEP_SECONDS = 0.01


class SlowRooms(ThreeRooms):
  """`ThreeRooms` with a real environment's pace."""

  def step(self, action: Any) -> Any:
    time.sleep(STEP_SECONDS)  # A slow world is what is wanted.
    return super().step(action)


class SlowPendulum(PendulumEnv):
  """Gymnasium's pendulum with a real environment's pace."""

  def step(self, action: Any) -> Any:
    time.sleep(STEP_SECONDS)
    return super().step(action)


def slow_pendulum(steps: int) -> gymnasium.Env[Any, Any]:
  """`SlowPendulum` with episodes of so many steps."""
  return TimeLimit(SlowPendulum(), steps)

"""Vector environments for tests."""

import functools
from typing import Any

from gymnasium.vector import AutoresetMode, SyncVectorEnv

from configs import EpisodesLost
from environments import ThreeRooms


def three_rooms(num_envs: int, **arguments: Any) -> SyncVectorEnv:
  """Three rooms side by side."""
  make = functools.partial(ThreeRooms, **arguments)
  return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


def resetting(num_envs: int, mode: str = "NEXT_STEP") -> SyncVectorEnv:
  """One that begins episodes by itself."""
  return SyncVectorEnv([ThreeRooms] * num_envs, autoreset_mode=AutoresetMode[mode])


def two(num_envs: int) -> SyncVectorEnv:
  """One with two sub-environments, whatever it is asked for."""
  return three_rooms(2)


class Losing(SyncVectorEnv):
  """Three rooms that lose their episodes at the steps `lost`, and again at the `failures` resets after each."""

  def __init__(self, num_envs: int, lost: list[int], failures: int = 0, **arguments: Any):
    super().__init__([functools.partial(ThreeRooms, **arguments)] * num_envs, autoreset_mode=AutoresetMode.DISABLED)
    self.lost, self.failures = lost, failures
    self.steps = self.failures_left = 0

  def reset(self, **arguments: Any) -> Any:
    if self.failures_left:
      self.failures_left -= 1
      raise EpisodesLost("The console is still away.")
    return super().reset(**arguments)

  def step(self, actions: Any) -> Any:
    self.steps += 1
    if self.steps in self.lost:
      self.failures_left = self.failures
      raise EpisodesLost("The console died.")
    return super().step(actions)


class Answering(SyncVectorEnv):
  """Three rooms whose `step` returns something else."""

  def __init__(self, num_envs: int, fault: str):
    super().__init__([ThreeRooms] * num_envs, autoreset_mode=AutoresetMode.DISABLED)
    self.fault = fault

  def step(self, actions: Any) -> Any:
    observations, rewards, terminated, truncated, infos = super().step(actions)
    return {
      "four": (observations, rewards, terminated, infos),
      "short": (observations, rewards[:1], terminated, truncated, infos),
      "list of infos": (observations, rewards, terminated, truncated, [infos]),
      "ragged": ([[0.0], [0.0, 1.0]], rewards, terminated, truncated, infos),
      "nan": (observations, rewards * float("nan"), terminated, truncated, infos),
    }[self.fault]

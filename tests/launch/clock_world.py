"""Worlds whose every step is known."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np


class Clock(gymnasium.Env):
  """`info["t"]` is 1, 2, ... 10; at 10 the episode terminates."""

  def __init__(self, numbers: int = 1):
    self.numbers = numbers
    self.observation_space = gymnasium.spaces.Box(0, 10, (numbers,), np.float32)
    self.action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
    super().reset(seed=seed, options=options)
    self.t = 0
    return np.zeros(self.numbers, np.float32), {"t": 0}

  def step(self, action: int) -> Any:
    self.t += 1
    return np.full(self.numbers, self.t, np.float32), 0.0, self.t == 10, False, {"t": self.t}


class Steered(gymnasium.Env):
  """One continuous action, unbounded by default; `info["far"]` says whether it was above the middle of its bounds, or 0."""

  def __init__(self, bounds: Sequence[float] = (-np.inf, np.inf)) -> None:
    self.observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    self.action_space = gymnasium.spaces.Box(bounds[0], bounds[1], (1,), np.float32)
    self.middle = np.mean(bounds) if np.isfinite(bounds).all() else 0

  def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
    super().reset(seed=seed, options=options)
    return np.zeros(1, np.float32), {}

  def step(self, action: Any) -> Any:
    return np.zeros(1, np.float32), 0.0, False, False, {"far": bool(action[0] > self.middle)}

"""A world that numbers its own steps and notes which of them were confirmed, so that rows can be counted without Slipstream.

Its observations carry the number of the world's life, of the episode and of the step, so that every row in a table says which
step it is. A worker begins an episode only when the server has confirmed the one before. So when `reset` is called, the world
notes the episode before it in a file of its own, with the times of its last step and of this call.
"""

import os
import pathlib
import secrets
import time
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from environments.events import EventStep

# The environment variable with the folder of the files; without it nothing is noted.
LEDGER = "SLIPSTREAM_FAULTS_LEDGER"
# Numbers in [0, 1] that float32 holds exactly.
LIFE_SCALE = 2.0**20
EPISODE_SCALE = 2.0**20
STEP_SCALE = 2.0**10
_GOAL = 6

Observation = npt.NDArray[np.float32]


def at_goal(step: EventStep) -> bool:
  """The event that the walk ends at the goal."""
  return bool(step.info["at_goal"])


class Counted(gymnasium.Env[Observation, Any]):
  """A walk of at most `length` steps: action 1 goes towards the goal, 0 back.

  Observation: float32 [4], (life, episode, step, position), scaled to [0, 1].
  """

  def __init__(self, length: int = 20, pause: float = 0.03):
    """Makes a world.

    Args:
      length: of the longest episode, in steps.
      pause: seconds that a step takes, so that the machine's cores suffice.
    """
    self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._length = length
    self._pause = pause
    self._life = secrets.randbelow(2**20)
    self._episode = -1
    self._step = self._position = 0
    self._ended_at = 0.0
    folder = os.environ.get(LEDGER)
    self._file = None if folder is None else pathlib.Path(folder) / f"{self._life}-{os.getpid()}.csv"

  def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Observation, dict[str, Any]]:
    super().reset(seed=seed)
    if self._file is not None and self._ended_at:
      # One write, so that a kill leaves whole lines.
      with self._file.open("ab", buffering=0) as file:
        line = f"{self._life},{self._episode},{self._step},{self._ended_at:.3f},{time.time():.3f}\n"
        file.write(line.encode())
    self._ended_at = 0.0
    self._episode += 1
    self._step = self._position = 0
    return self._observation(), {"at_goal": False}

  def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    time.sleep(self._pause)
    self._step += 1
    self._position = max(0, self._position + (1 if action else -1))
    at_goal, is_late = self._position >= _GOAL, self._step >= self._length
    if at_goal or is_late:
      self._ended_at = time.time()
    return self._observation(), 1.0 if at_goal else -0.01, at_goal, is_late and not at_goal, {"at_goal": at_goal}

  def _observation(self) -> Observation:
    return np.array(
      [
        self._life / LIFE_SCALE,
        self._episode / EPISODE_SCALE,
        self._step / STEP_SCALE,
        min(1.0, self._position / _GOAL),
      ],
      np.float32,
    )

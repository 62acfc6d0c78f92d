"""A small world of your own, and events for it.

The agent walks along a corridor of cells and looks for the door at its right end. Everything that Slipstream needs to know
is here: a `gymnasium.Env`, a condition that is a function, and one that is a class because it keeps state.
"""

import gymnasium
import numpy as np

from slipstream import EventStep

LEFT, RIGHT = range(2)
CELL_PIXELS = 24


class Corridor(gymnasium.Env):
  """A row of cells; the agent starts at the left end, and the door is at the right end.

  Observation: float32 [1], the position from -1 (left end) to 1 (door).
  Actions: 0 goes left, 1 goes right; against a wall the agent stays.
  Reward: 1 at the door, where the episode terminates; otherwise -0.01.
  `info`: `cell`, the position as a whole number from 0.
  """

  metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

  def __init__(self, length: int = 12, time_limit: int = 100, render_mode: str | None = None):
    """Takes the number of cells, and the steps after which an episode is truncated."""
    self.length = length
    self.time_limit = time_limit
    self.render_mode = render_mode
    self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    self.action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._cell = 0
    self._steps = 0
    return self._observation(), {"cell": self._cell}

  def step(self, action):
    move = 1 if action == RIGHT else -1
    self._cell = min(max(self._cell + move, 0), self.length - 1)
    self._steps += 1
    terminated = self._cell == self.length - 1
    truncated = not terminated and self._steps >= self.time_limit
    return self._observation(), 1.0 if terminated else -0.01, terminated, truncated, {"cell": self._cell}

  def render(self):
    """uint8 [height, width, 3]; called only if a run records an episode."""
    picture = np.full((CELL_PIXELS, self.length * CELL_PIXELS, 3), 240, np.uint8)
    picture[:, -CELL_PIXELS:] = (76, 175, 105)
    left = self._cell * CELL_PIXELS
    picture[4:-4, left + 4 : left + CELL_PIXELS - 4] = (214, 58, 52)
    return picture

  def _observation(self):
    return np.array([2 * self._cell / (self.length - 1) - 1], np.float32)


def at_door(step: EventStep) -> bool:
  """The event that the agent reaches the door: a function of one step."""
  return step.terminated


class Progress:
  """The event that the agent is `cells` further than when this last fired: a class, because it keeps state in an episode."""

  def __init__(self, cells: int = 3):
    self._cells = cells
    self.reset()

  def reset(self) -> None:
    """Called before the first step of every episode."""
    self._next = self._cells

  def __call__(self, step: EventStep) -> bool:
    if step.info["cell"] < self._next:
      return False
    self._next = step.info["cell"] + self._cells
    return True

"""A world whose episodes have measures, of which one tells with which arguments it was made."""

from typing import Any

from environments import ThreeRooms


class Measured(ThreeRooms):
  """Three rooms that tell their `level`, whether the goal was reached, and, only if it was, in how many steps."""

  def __init__(self, level: float = 0.0, **arguments: Any):
    super().__init__(**arguments)
    self.level, self.taken = level, 0

  def reset(self, **arguments: Any) -> Any:
    self.taken = 0
    return super().reset(**arguments)

  def step(self, action: Any) -> Any:
    observation, reward, terminated, truncated, info = super().step(action)
    self.taken += 1
    if terminated or truncated:
      info["measures"] = {"level": self.level, "reached": terminated, **({"way": self.taken} if terminated else {})}
    return observation, reward, terminated, truncated, info

"""The objects that the grid worlds take from the minigrid library, and one that it lacks.

Only this module imports minigrid, and it is imported only when a world is made. So the worlds' event conditions load without the
extra `worlds`, and a run of another world does not wait for pygame.
"""

from typing import Any

from minigrid.core.constants import COLOR_TO_IDX, COLORS, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Floor, Goal, Key, Lava, Wall, WorldObj
from minigrid.utils.rendering import fill_coords, point_in_rect, point_in_triangle
from numpy import typing as npt

__all__ = [
  "Door",
  "Goal",
  "Grid",
  "Key",
  "Lava",
  "Spikes",
  "Wall",
  "WorldObj",
]

# The library's floor always has the state 0. Another state tells spikes from floor in the library's cache of drawn tiles.
_SPIKES_STATE = STATE_TO_IDX["closed"]


class Spikes(Floor):
  """A yellow square that the agent can walk on, at a cost."""

  def __init__(self) -> None:
    super().__init__("yellow")

  def encode(self) -> tuple[int, int, int]:
    """Type, colour and state, as the library numbers them."""
    return OBJECT_TO_IDX[self.type], COLOR_TO_IDX[self.color], _SPIKES_STATE

  def render(self, img: npt.NDArray[Any]) -> None:
    """Draws two rows of dark spikes on yellow."""
    fill_coords(img, point_in_rect(0.031, 1, 0.031, 1), COLORS[self.color])
    for left in (0.14, 0.56):
      for top in (0.12, 0.54):
        fill_coords(
          img, point_in_triangle((left, top + 0.34), (left + 0.15, top), (left + 0.3, top + 0.34)), (60, 50, 0)
        )

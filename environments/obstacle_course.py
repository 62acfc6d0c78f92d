"""The obstacle course (SSET, Sections 5.4 to 5.6) and its events.

  #####################
  #S   #    #    #    #     room_size = 4, an episode. From left to right: spikes (^), lava (~), keys (k) with locked doors
  # ^  #    . k  |    #     (|), and the goal (G). S is the start, and . a gap in a wall.
  # ^  .  ~ #    |    #
  # ^  #  ~ #   k#   G#
  #####################

The paper gives the observation, the actions, the rewards of spikes and lava, the start, and what is random: lava, gaps, keys,
doors and their colours. The spikes are not in that list, so here they do not move. They fill the middle column of the first room
except its top row: the way from (1, 1) hardly meets them, and the way from (1, 4) has to go around them, as the experiment on
forgetting needs.

The paper leaves open the sizes, the number of keys and doors, the place of the goal, the time limit, and the reward of all other
steps. That reward is -0.01 here. With 0, a step of wandering would cost only a hundredth of the goal's value, less than a
network's error, and greedy policies would turn on the spot. With -0.1, as in the other worlds, and the paper's discount of 0.99,
lava ten steps away would in most episodes be worth more than the goal 34 steps away. With -0.01, lava is never worth more than
waiting for ever, which is worth -1.
"""

from collections.abc import Sequence
from typing import ClassVar

from configs import UserError
from environments.arguments import check_whole
from environments.events import EventStep
from environments.grid_world import KEY_COLOURS, GridWorld, Position
from environments.three_rooms import at_gap, done

__all__ = ["ObstacleCourse", "at_door", "at_gap", "at_lava", "at_spike", "done", "pickup_key"]

ROOMS = 4
MAX_ROOM_SIZE = 40


def at_spike(step: EventStep) -> bool:
  """The event that the agent steps on spikes."""
  return bool(step.info["at_spike"])


def at_lava(step: EventStep) -> bool:
  """The event that the agent walks into lava, where the episode ends."""
  return bool(step.info["at_lava"])


def pickup_key(step: EventStep) -> bool:
  """The event that the agent picks up a key."""
  return bool(step.info["pickup_key"])


def at_door(step: EventStep) -> bool:
  """The event that the agent opens a locked door (not that it walks through, or closes and opens it again)."""
  return bool(step.info["at_door"])


class ObstacleCourse(GridWorld):
  """Four rooms in a row: one with spikes, one with lava, one with keys, and one with the goal behind a locked door.

  Observation, actions, rewards and `info` are those of `GridWorld`, with a view.
  """

  NAME: ClassVar[str] = "obstacle_course"

  def __init__(  # noqa: PLR0913  # The keyword arguments are the world's config.
    self,
    room_size: int = 4,
    start: Sequence[int] = (1, 1),
    doors: int = 2,
    keys: int = 2,
    time_limit: int = 200,
    step_reward: float = -0.01,
    render_mode: str | None = None,
    highlight: bool = False,
  ):
    """Prepares the course.

    Args:
      room_size: cells per side of a room, without walls.
      start: (x, y), where the agent begins, in the first room and not on its spikes; (1, 1) is the top-left cell.
      doors: locked doors in the last wall, all of different colours.
      keys: how many of them have a key.
      time_limit: in steps; the episode is truncated there.
      step_reward: for every step that neither reaches the goal nor does harm.
      render_mode: "rgb_array" or None.
      highlight: whether pictures show what the agent sees.

    Raises:
      UserError: an argument is not valid, or minigrid is not installed.
    """
    self.room_size = check_whole(self.NAME, "room_size", room_size, 3, MAX_ROOM_SIZE)
    self.doors = check_whole(self.NAME, "number of doors", doors, 1, min(len(KEY_COLOURS), room_size))
    self.keys = check_whole(self.NAME, "number of keys", keys, 1, self.doors)
    columns = ROOMS * room_size + ROOMS - 1
    self.spikes = tuple(((room_size + 1) // 2, row) for row in range(2, room_size + 1))
    first = _check_start(start, room_size, self.spikes)
    super().__init__((columns, room_size), first, (columns, room_size), time_limit, step_reward, render_mode, highlight)

  def _lay_out(self) -> None:
    pitch = self.room_size + 1
    spikes = self.objects.Spikes()
    for cell in self.spikes:
      self._put(cell, spikes)
    self._add_wall(pitch, self._random_row())
    # Not beside a wall, where lava could close a gap.
    self._add_lava(pitch + int(self.np_random.integers(2, self.room_size)))
    self._add_wall(2 * pitch, self._random_row())
    floor = [(2 * pitch + x, y) for x in range(1, pitch) for y in range(1, pitch)]
    self._add_doors(3 * pitch, self.doors, self.keys, floor)


def _check_start(start: Sequence[int], room_size: int, spikes: tuple[Position, ...]) -> Position:
  whole = isinstance(start, (list, tuple)) and all(isinstance(n, int) and not isinstance(n, bool) for n in start)
  if not whole or len(start) != 2 or not all(1 <= n <= room_size for n in start) or tuple(start) in spikes:
    raise UserError(
      f"obstacle_course has the start {start!r}: give (x, y), two whole numbers from 1 to {room_size}, a cell of the first "
      "room without spikes."
    )
  return start[0], start[1]

"""The two-room world (SSET, Sections 5.2 and 5.3) and its events, good and bad.

  #############
  #     .     #     room_size = 5: S is the start, G the goal, and . the gap in the wall between the rooms.
  #     #     #
  #     #     #
  #     #     #
  #S    #    G#
  #############

The paper gives the task, from the bottom left through the gap to the green square, and says that the world is similar to the
three rooms, whose observation, actions and rewards it has here. The paper leaves open the sizes, the rows of the gap and of the
goal, and the time limit. With the defaults, the straight way to the goal ends at the wall. Potentials of the distance to the goal
or to the right wall lead the agent there; the paper found such potentials no better than none.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from environments.arguments import check_whole
from environments.events import EventStep
from environments.grid_planner import shortest_plan
from environments.grid_world import HEADINGS, GridWorld, Position
from environments.three_rooms import MAX_ROOM_SIZE, STEP_REWARD, at_gap, done

__all__ = ["GapInput", "TwoRooms", "at_gap", "done", "near_goal", "near_initial"]


def near_goal(step: EventStep, distance: int = 2) -> bool:
  """The event that the agent arrives in a cell within `distance` (in cells, Manhattan) of the goal, not the goal itself."""
  return bool(step.info["moved"] and 0 < step.info["goal_distance"] <= distance)


def near_initial(step: EventStep, distance: int = 2) -> bool:
  """The event that the agent arrives in a cell within `distance` (in cells, Manhattan) of the start."""
  return bool(step.info["moved"] and step.info["start_distance"] <= distance)


class TwoRooms(GridWorld):
  """Two rooms side by side; the agent starts bottom left and looks for the goal in the last column of the right one.

  Observation: float32 [3], (x, y, theta), each scaled to [-1, 1].
  Actions: 0 turns left, 1 turns right, 2 goes one cell forward.
  Reward: +1 on reaching the goal, where the episode terminates; otherwise `step_reward`.
  `info`: that of `GridWorld`; `goal_distance` and `start_distance`, in cells (Manhattan).

  The world is deterministic; a seed only reaches gymnasium's `np_random`.
  """

  NAME: ClassVar[str] = "two_rooms"
  HAS_VIEW: ClassVar[bool] = False

  def __init__(
    self,
    room_size: int = 5,
    gap_row: int | None = None,
    goal_row: int | None = None,
    time_limit: int = 300,
    render_mode: str | None = None,
    step_reward: float = STEP_REWARD,
  ):
    """Lays the rooms out.

    Args:
      room_size: cells per side of a room, without walls.
      gap_row: row of the gap, where 1 is the top-most; None for 1.
      goal_row: row of the goal; None for the bottom-most.
      time_limit: in steps; the episode is truncated there.
      render_mode: "rgb_array" or None.
      step_reward: for every step that does not reach the goal.

    Raises:
      UserError: an argument is not valid, or minigrid is not installed.
    """
    self.room_size = check_whole(self.NAME, "room_size", room_size, 2, MAX_ROOM_SIZE)
    self.gap = (room_size + 1, check_whole(self.NAME, "gap_row", 1 if gap_row is None else gap_row, 1, room_size))
    row = check_whole(self.NAME, "goal_row", room_size if goal_row is None else goal_row, 1, room_size)
    columns = 2 * room_size + 1
    super().__init__(
      (columns, room_size), (1, room_size), (columns, row), time_limit, step_reward, render_mode, highlight=False
    )

  def all_observations(self) -> npt.NDArray[np.float32]:
    """The observation of every state that the agent can be in: float32 [states, 3]."""
    free = [y * self.width + x for y in range(self.height) for x in range(self.width) if self.is_free((x, y))]
    states = np.array(free)[:, None] * len(HEADINGS) + np.arange(len(HEADINGS))
    observations: npt.NDArray[np.float32] = self._values.take(self._gathers[states.ravel()])
    return observations

  def is_free(self, position: Position) -> bool:
    """Whether the agent can stand there."""
    x, y = position
    if not (1 <= x < self.width - 1 and 1 <= y < self.height - 1):
      return False
    return x != self.room_size + 1 or position == self.gap

  def shortest_path(self) -> tuple[int, ...]:
    """The actions of a shortest way from the start to the goal, turns included."""
    world = TwoRooms(self.room_size, self.gap[1], self.goal[1])
    world.reset()
    path = shortest_plan(world)
    assert path is not None  # The wall has a gap.
    return path

  def _lay_out(self) -> None:
    column, row = self.gap
    self._add_wall(column, row)

  def _info(self, happening: str, moved: bool) -> dict[str, Any]:
    info = super()._info(happening, moved)
    info["goal_distance"] = _distance(self.position, self.goal)
    info["start_distance"] = _distance(self.position, self.start)
    return info


class GapInput(gymnasium.ObservationWrapper[npt.NDArray[np.float32], Any, npt.NDArray[np.float32]]):
  """Two rooms whose observation has one number more: 1 in the gap, else -1; float32 [4]."""

  def __init__(self, **arguments: Any):
    """Makes the world; the arguments are those of `TwoRooms`."""
    self.world = TwoRooms(**arguments)
    super().__init__(self.world)
    self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)

  def observation(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The world's observation with the number appended."""
    return np.append(observation, np.float32(1 if self.world.position == self.world.gap else -1))


def _distance(a: Position, b: Position) -> int:
  return abs(a[0] - b[0]) + abs(a[1] - b[1])

"""The three-room world (SSET, Section 5.1) and its events.

  +-----------+
  |       #  G|     room_size = 3: S is the start and G the goal. The floor of a room has 3 x 3 cells; the walls between
  |   #   #   |     them (#) are one cell thick and leave one cell open, the gap.
  |S  #       |
  +-----------+

The paper gives the observation, the actions and the rewards. It leaves open the sizes, the places of the gaps, the
start and the time limit. The start and the goal are fixed here, in opposite corners; the others are arguments, with
defaults that make the way long: the gaps lie at opposite ends of their walls. A random policy then finds the goal in
about one of 20 episodes.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from configs import UserError
from environments.arguments import check_render_mode, check_whole
from environments.events import EventStep
from environments.search import fewest_actions

Observation = npt.NDArray[np.float32]
Position = tuple[int, int]  # (x, y): the column from the left and the row from the top, inside the outer wall.

ROOMS = 3
HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # (dx, dy): right, down, left, up.
TURN_LEFT, TURN_RIGHT, FORWARD = range(3)
GOAL_REWARD = 1.0
STEP_REWARD = -0.1

# Keeps the lookup tables small (below 2 million states).
MAX_ROOM_SIZE = 400

_CELL_PIXELS = 32
_SUPERSAMPLING = 4
_WALL = (47, 52, 63)
_FLOOR = (244, 242, 236)
_GRID = (226, 223, 214)
_GAP = (250, 219, 150)
_START = (225, 230, 240)
_GOAL = (76, 175, 105)
_AGENT = (214, 58, 52)


def at_gap(step: EventStep) -> bool:
  """The event that the agent arrives in a gap between two rooms (not that it stays or turns there)."""
  return bool(step.info["at_gap"])


def done(step: EventStep) -> bool:
  """The event that the agent reaches the goal."""
  return bool(step.info["at_goal"])


class ThreeRooms(gymnasium.Env[Observation, Any]):
  """Three rooms in a row; the agent starts bottom left, faces right, and looks for the goal top right.

  Observation: float32 [3], (x, y, theta), each scaled to [-1, 1]. x goes from left to right, y from top to bottom, and
    theta is -1, -1/3, 1/3, 1 for right, down, left, up.
  Actions: 0 turns left, 1 turns right, 2 goes one cell forward (against a wall the agent stays).
  Reward: +1 on reaching the goal, where the episode terminates; otherwise -0.1.
  `info`: `position`, (x, y) as whole cells; `at_gap`, whether this step took the agent into a gap; `at_goal`.

  The world is deterministic; a seed only reaches gymnasium's `np_random`.
  """

  metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}

  def __init__(
    self,
    room_size: int = 5,
    gaps: Sequence[int] | None = None,
    time_limit: int = 500,
    render_mode: str | None = None,
  ):
    """Lays the rooms out.

    Args:
      room_size: cells per side of a room, without walls.
      gaps: the rows, from the top, of the gaps in the first and the second wall; None for the top-most and the
        bottom-most.
      time_limit: in steps; the episode is truncated there.
      render_mode: "rgb_array" or None.

    Raises:
      UserError: an argument is not valid.
    """
    self.room_size = check_whole("three_rooms", "room_size", room_size, 2, MAX_ROOM_SIZE)
    self.gap_rows = _check_gaps(gaps, self.room_size)
    self.time_limit = check_whole("three_rooms", "time_limit", time_limit, 1)
    self.render_mode = check_render_mode("three_rooms", render_mode)
    self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    self.action_space = gymnasium.spaces.Discrete(3)

    self.width = ROOMS * self.room_size + ROOMS - 1
    self.height = self.room_size
    self.start: Position = (0, self.height - 1)
    self.goal: Position = (self.width - 1, 0)
    self.gaps: tuple[Position, ...] = tuple(((i + 1) * self.room_size + i, row) for i, row in enumerate(self.gap_rows))

    self._start_state = self._state(self.start, 0)
    self._positions = [(x, y) for x in range(self.width) for y in range(self.height) for _ in HEADINGS]
    self._transitions = self._make_transitions()
    self._observations = self._make_observations()
    self._rows = list(self._observations)
    self._is_gap = [position in self.gaps for position in self._positions]
    self._is_goal = [position == self.goal for position in self._positions]
    self._background: Image.Image | None = None
    self._current = self._start_state
    self._steps = 0
    self._ended = True

  def reset(
    self, *, seed: int | None = None, options: dict[str, Any] | None = None
  ) -> tuple[Observation, dict[str, Any]]:
    """Puts the agent on the start."""
    super().reset(seed=seed, options=options)
    self._current = self._start_state
    self._steps = 0
    self._ended = False
    return self._rows[self._current].copy(), {"position": self.start, "at_gap": False, "at_goal": False}

  def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    """Takes one action.

    Raises:
      gymnasium.error.ResetNeeded: the episode has ended or none was begun.
    """
    if self._ended:
      raise gymnasium.error.ResetNeeded("three_rooms: call reset() before the first step of an episode.")
    last = self._current
    state = self._current = self._transitions[action][last]
    self._steps += 1
    terminated = self._is_goal[state]
    truncated = not terminated and self._steps >= self.time_limit
    self._ended = terminated or truncated
    info = {
      "position": self._positions[state],
      # Not after a turn, which changes the state but not the cell.
      "at_gap": self._is_gap[state] and not self._is_gap[last],
      "at_goal": terminated,
    }
    return self._rows[state].copy(), GOAL_REWARD if terminated else STEP_REWARD, terminated, truncated, info

  def render(self) -> npt.NDArray[np.uint8] | None:
    """The world from above: uint8 [height, width, 3], or None without a render mode."""
    if self.render_mode is None:
      return None
    if self._background is None:
      self._background = _draw_background(self)
    picture = self._background.copy()
    _draw_agent(picture, self._positions[self._current], self._current % len(HEADINGS))
    return np.asarray(picture)

  def is_free(self, position: Position) -> bool:
    """Whether the agent can stand there."""
    x, y = position
    if not (0 <= x < self.width and 0 <= y < self.height):
      return False
    return (x + 1) % (self.room_size + 1) != 0 or position in self.gaps

  def all_observations(self) -> npt.NDArray[np.float32]:
    """The observation of every state that the agent can be in: float32 [states, 3]."""
    return self._observations[[self.is_free(position) for position in self._positions]]

  def shortest_path(self) -> tuple[int, ...]:
    """The actions of a shortest way from the start to the goal, turns included."""
    path = fewest_actions(
      self._start_state,
      lambda state: bool(self._is_goal[state]),
      lambda state: ((action, successors[state]) for action, successors in enumerate(self._transitions)),
    )
    assert path is not None, "every wall has a gap, so the goal can be reached"
    return path

  def shortest_path_length(self) -> int:
    """The fewest steps in which the goal can be reached."""
    return len(self.shortest_path())

  def _state(self, position: Position, heading: int) -> int:
    x, y = position
    return (x * self.height + y) * len(HEADINGS) + heading

  def _make_transitions(self) -> list[list[int]]:
    """`[action][state]` -> next state; lists, since indexing them is several times faster than indexing arrays."""
    transitions: list[list[int]] = [[], [], []]
    for state, (x, y) in enumerate(self._positions):
      heading = state % len(HEADINGS)
      dx, dy = HEADINGS[heading]
      ahead = (x + dx, y + dy)
      transitions[TURN_LEFT].append(self._state((x, y), (heading - 1) % len(HEADINGS)))
      transitions[TURN_RIGHT].append(self._state((x, y), (heading + 1) % len(HEADINGS)))
      transitions[FORWARD].append(self._state(ahead, heading) if self.is_free(ahead) else state)
    return transitions

  def _make_observations(self) -> npt.NDArray[np.float32]:
    """float32 [states, 3], walls included."""
    theta = np.arange(len(self._positions)) % len(HEADINGS)
    x, y = np.array(self._positions).T
    fractions = np.stack([x / (self.width - 1), y / (self.height - 1), theta / (len(HEADINGS) - 1)], axis=1)
    observations: npt.NDArray[np.float32] = (2 * fractions - 1).astype(np.float32)
    return observations


def _check_gaps(gaps: Sequence[int] | None, room_size: int) -> tuple[int, ...]:
  if gaps is None:
    return (0, room_size - 1)
  if not isinstance(gaps, (list, tuple)) or len(gaps) != ROOMS - 1:
    raise UserError(f"three_rooms has the gaps {gaps!r}: give two rows, one for each wall.")
  return tuple(check_whole("three_rooms", "gap row", row, 0, room_size - 1) for row in gaps)


def _draw_background(world: ThreeRooms) -> Image.Image:
  """The walls and the floor; the outer wall is drawn one cell thick."""
  picture = Image.new("RGB", ((world.width + 2) * _CELL_PIXELS, (world.height + 2) * _CELL_PIXELS), _WALL)
  draw = ImageDraw.Draw(picture)
  for x in range(world.width):
    for y in range(world.height):
      if world.is_free((x, y)):
        left, top = (x + 1) * _CELL_PIXELS, (y + 1) * _CELL_PIXELS
        corners = (left, top, left + _CELL_PIXELS - 1, top + _CELL_PIXELS - 1)
        draw.rectangle(corners, fill=_cell_colour(world, (x, y)), outline=_GRID)
  return picture


def _cell_colour(world: ThreeRooms, position: Position) -> tuple[int, int, int]:
  if position in world.gaps:
    return _GAP
  return {world.goal: _GOAL, world.start: _START}.get(position, _FLOOR)


def _draw_agent(picture: Image.Image, position: Position, heading: int) -> None:
  """Draws a triangle that points along the heading, with smooth edges."""
  size = _CELL_PIXELS * _SUPERSAMPLING
  dx, dy = HEADINGS[heading]
  # Along the heading and across it, in cells from the middle of the cell.
  corners = [(0.36, 0.0), (-0.3, 0.3), (-0.3, -0.3)]
  points = [(size * (0.5 + a * dx - b * dy), size * (0.5 + a * dy + b * dx)) for a, b in corners]
  mask = Image.new("L", (size, size), 0)
  ImageDraw.Draw(mask).polygon(points, fill=255)
  mask = mask.resize((_CELL_PIXELS, _CELL_PIXELS), Image.Resampling.LANCZOS)
  x, y = position
  picture.paste(_AGENT, ((x + 1) * _CELL_PIXELS, (y + 1) * _CELL_PIXELS), mask)

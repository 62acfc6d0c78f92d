"""`GridWorld`: the base class of the SSET paper's MiniGrid worlds, with a grid of objects, an agent and its observations.

The grid, the objects with their rules, and the renderer are the minigrid library's. Its environment class is not used, because it
slices, turns and encodes the grid object by object at every step. Here one array holds the numbers of all objects and is updated
where an object changes; an observation is one gather from it. See docs/benchmarks.md.

Positions are the library's (and the paper's): (x, y) counts columns from the left and rows from the top, the outer wall included,
so that (1, 1) is the top-left cell of the floor.
"""

import abc
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from configs import UserError
from environments.arguments import check_render_mode, check_whole
from environments.three_rooms import FORWARD, HEADINGS, TURN_LEFT, TURN_RIGHT, Observation, Position

__all__ = [
  "DROP",
  "FORWARD",
  "HAPPENINGS",
  "HEADINGS",
  "KEY_COLOURS",
  "PICKUP",
  "TOGGLE",
  "TURN_LEFT",
  "TURN_RIGHT",
  "VIEW_SIZE",
  "GridWorld",
  "Position",
]

PICKUP, DROP, TOGGLE = range(3, 6)
VIEW_SIZE = 5  # cells per side of what the agent sees (Section 5.4).
KEY_COLOURS = ("red", "green", "blue", "purple", "yellow")  # A grey door would look like a piece of wall.

GOAL_REWARD = 1.0
HARM_REWARD = -1.0  # on spikes, and in lava.

# What can happen in a step, at most one of these. The names are keys of `info`.
HAPPENINGS = ("at_spike", "at_lava", "at_gap", "pickup_key", "at_door", "at_goal")
_ARRIVALS = {"floor": "at_spike", "lava": "at_lava", "goal": "at_goal"}  # Type of the object walked on -> happening.
_ENDS = frozenset({"at_lava", "at_goal"})

# The agent sees an object's kind (spikes are a kind of floor), the colour of a door or key, and two flags of a door.
_KINDS = ("wall", "door", "key", "goal", "lava", "floor")
_COLOURED = ("door", "key")
_CHANNELS = len(_KINDS) + len(KEY_COLOURS) + 2
_CARRIED = 1 + _CHANNELS  # Numbers for the object in hand.
_MARGIN = VIEW_SIZE - 1  # cells beyond the outer wall that can be in view.
_TILE_PIXELS = 32


class GridWorld(gymnasium.Env[Observation, Any], abc.ABC):
  """A grid with an agent, laid out anew in each episode.

  Observation: one float32 vector, within [-1, 1]. With a view (`HAS_VIEW`) it is
    - the view: 5 x 5 cells, the agent in the middle of the last row and looking towards the first; row by row from the
      farthest, from left to right, thirteen numbers a cell, 1 or 0: whether a wall, a door, a key, the goal, lava or spikes
      are there; whether its colour is one of `KEY_COLOURS`, for a door or a key; whether a door is locked, and whether
      open. All are 0 on bare floor. The agent sees through walls, and its own cell shows what it stands on. What lies
      beyond the outer wall looks like wall;
    - carrying: 1 with an object in hand, else 0;
    - the object in hand, as thirteen numbers like those of a cell, all -1 without one;
    - x, y and theta, each scaled to [-1, 1] as in `ThreeRooms`.
    Without a view it is x, y and theta alone.
  Actions: 0 turns left, 1 turns right, 2 goes one cell forward; with a view also 3 picks up the object ahead, 4 drops
    the object in hand ahead, 5 toggles the door ahead. An action that is not possible changes nothing.
  Reward: +1 on the goal and -1 in lava, where the episode terminates; -1 on stepping on spikes; else `step_reward`.
  `info`: `position`; `heading`, from 0: right, down, left, up; `moved`, whether this step took the agent to another
    cell; and for each of `HAPPENINGS` whether it happened in this step.

  Attributes:
    grid: the minigrid `Grid`, of this episode.
    position: of the agent.
    heading: of the agent.
    carrying: the minigrid object in hand, or None.
    gaps: the openings in this episode's walls.
    goal: where the goal is.
  """

  metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}
  NAME: ClassVar[str]
  HAS_VIEW: ClassVar[bool] = True

  def __init__(
    self,
    floor: tuple[int, int],
    start: Position,
    goal: Position,
    time_limit: int,
    step_reward: float,
    render_mode: str | None,
    highlight: bool = False,
  ):
    """Makes an empty floor within an outer wall.

    Args:
      floor: columns and rows inside the outer wall.
      start: where the agent stands, facing right, when an episode begins.
      goal: where the goal is.
      time_limit: in steps; the episode is truncated there.
      step_reward: for every step that neither reaches the goal nor does harm.
      render_mode: "rgb_array" or None.
      highlight: whether pictures show what the agent sees.

    Raises:
      UserError: an argument is not valid, or minigrid is not installed.
    """
    self.objects = _load_objects(self.NAME)
    self.time_limit = check_whole(self.NAME, "time_limit", time_limit, 1)
    self.render_mode = check_render_mode(self.NAME, render_mode)
    self.highlight = highlight
    self.width, self.height = floor[0] + 2, floor[1] + 2
    self.start, self.goal = start, goal
    self._rewards = {"at_spike": HARM_REWARD, "at_lava": HARM_REWARD, "at_goal": GOAL_REWARD}
    self._step_reward = _check_reward(self.NAME, step_reward)

    self.grid = self.objects.Grid(self.width, self.height)
    self.grid.wall_rect(0, 0, self.width, self.height)
    self._wall = self.objects.Wall()  # All inner walls share this object.
    self._empty_cells = list(self.grid.grid)
    self._values = self._make_values()
    self._empty_values = self._values.copy()
    self._gathers = self._make_gathers()
    size = self._gathers.shape[1]
    self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)
    actions = (self._turn_left, self._turn_right, self._forward, self._pickup, self._drop, self._toggle)
    self._actions: Sequence[Callable[[], str]] = actions if self.HAS_VIEW else actions[:3]
    self.action_space: gymnasium.spaces.Discrete = gymnasium.spaces.Discrete(len(self._actions))

    self.position, self.heading = start, 0
    self.carrying: Any = None
    self.gaps: frozenset[Position] = frozenset()
    self._steps = 0
    self._ended = True

  @abc.abstractmethod
  def _lay_out(self) -> None:
    """Puts this episode's objects on the empty floor, at random by `np_random` alone; the goal is there already."""

  def reset(
    self, *, seed: int | None = None, options: dict[str, Any] | None = None
  ) -> tuple[Observation, dict[str, Any]]:
    """Lays out an episode's world and puts the agent on the start."""
    super().reset(seed=seed, options=options)
    self.grid.grid = self._empty_cells.copy()
    np.copyto(self._values, self._empty_values)
    self.position, self.heading, self.carrying = self.start, 0, None
    self.gaps = frozenset()
    self._put(self.goal, self.objects.Goal())
    self._lay_out()
    self._steps = 0
    self._ended = False
    return self._observe(), self._info("", moved=False)

  def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    """Takes one action.

    Raises:
      gymnasium.error.ResetNeeded: the episode has ended or none was begun.
    """
    if self._ended:
      raise gymnasium.error.ResetNeeded(f"{self.NAME}: call reset() before the first step of an episode.")
    last = self.position
    happening = self._actions[action]()
    self._steps += 1
    terminated = happening in _ENDS
    truncated = not terminated and self._steps >= self.time_limit
    self._ended = terminated or truncated
    info = self._info(happening, moved=self.position is not last)
    return self._observe(), self._rewards.get(happening, self._step_reward), terminated, truncated, info

  def render(self) -> npt.NDArray[np.uint8] | None:
    """The world from above: uint8 [height, width, 3], or None without a render mode.

    What the agent carries is shown in the top-left corner.
    """
    if self.render_mode is None:
      return None
    seen = self._seen() if self.highlight and self.HAS_VIEW else None
    picture: npt.NDArray[np.uint8] = self.grid.render(_TILE_PIXELS, self.position, self.heading, seen)
    if self.carrying is not None:
      picture[:_TILE_PIXELS, :_TILE_PIXELS] = self.grid.render_tile(self.carrying, tile_size=_TILE_PIXELS)
    return picture

  def view_cells(self) -> list[Position]:
    """The cells of the view from where the agent is, in the observation's order; some may lie outside the grid."""
    return _view_cells(self.position, self.heading)

  def _turn_left(self) -> str:
    self.heading = (self.heading - 1) % len(HEADINGS)
    return ""

  def _turn_right(self) -> str:
    self.heading = (self.heading + 1) % len(HEADINGS)
    return ""

  def _forward(self) -> str:
    ahead, cell = self._ahead()
    if cell is None:
      self.position = ahead
      return "at_gap" if ahead in self.gaps else ""
    if not cell.can_overlap():
      return ""
    self.position = ahead
    return _ARRIVALS.get(cell.type, "")

  def _pickup(self) -> str:
    ahead, cell = self._ahead()
    if cell is None or self.carrying is not None or not cell.can_pickup():
      return ""
    self._put(ahead, None)
    self._carry(cell)
    return "pickup_key"

  def _drop(self) -> str:
    ahead, cell = self._ahead()
    if cell is None and self.carrying is not None:
      self._put(ahead, self.carrying)
      self._carry(None)
    return ""

  def _toggle(self) -> str:
    ahead, cell = self._ahead()
    if cell is None or cell.type != "door":
      return ""
    was_locked = cell.is_locked
    cell.toggle(self, ahead)  # Reads `carrying`.
    self._put(ahead, cell)
    return "at_door" if was_locked and cell.is_open else ""

  def _ahead(self) -> tuple[Position, Any]:
    (x, y), (dx, dy) = self.position, HEADINGS[self.heading]
    ahead = (x + dx, y + dy)
    return ahead, self.grid.grid[ahead[1] * self.width + ahead[0]]

  def _put(self, position: Position, thing: Any) -> None:
    """Puts an object, or nothing, into a cell."""
    x, y = position
    self.grid.grid[y * self.width + x] = thing
    at = self._value_index(x, y)
    self._values[at : at + _CHANNELS] = _features(thing)

  def _carry(self, thing: Any) -> None:
    self.carrying = thing
    self._values[self._carried_index : self._carried_index + _CARRIED] = _carried(thing)

  def _observe(self) -> Observation:
    x, y = self.position
    observation: Observation = self._values.take(self._gathers[(y * self.width + x) * len(HEADINGS) + self.heading])
    return observation

  def _info(self, happening: str, moved: bool) -> dict[str, Any]:
    info: dict[str, Any] = {"position": self.position, "heading": self.heading, "moved": moved}
    info.update(_NOTHING)
    if happening:
      info[happening] = True
    return info

  def _seen(self) -> npt.NDArray[np.bool_]:
    """[width, height]: which cells are in view."""
    seen = np.zeros((self.width, self.height), np.bool_)
    for x, y in self.view_cells():
      if 0 <= x < self.width and 0 <= y < self.height:
        seen[x, y] = True
    return seen

  def _value_index(self, x: int, y: int) -> int:
    return ((y + _MARGIN) * (self.width + 2 * _MARGIN) + x + _MARGIN) * _CHANNELS

  @property
  def _carried_index(self) -> int:
    return self._value_index(-_MARGIN, self.height + _MARGIN)  # After the last cell.

  def _make_values(self) -> npt.NDArray[np.float32]:
    """All numbers that observations of the empty floor can hold, in one array.

    They are: the cells with a margin of wall around them, [height + 8, width + 8, 13]; the object in hand; x of every column, y
    of every row, theta of every heading.
    """
    cells = np.tile(np.array(_features(self._wall)), (self.height + 2 * _MARGIN, self.width + 2 * _MARGIN, 1))
    cells[_MARGIN + 1 : -_MARGIN - 1, _MARGIN + 1 : -_MARGIN - 1] = _features(None)
    # From -1 to 1 over the floor; the outer wall, where the agent cannot be, lies beyond.
    x, y = ((2 * np.arange(size) - size + 1) / (size - 3) for size in (self.width, self.height))
    theta = np.linspace(-1, 1, len(HEADINGS))
    return np.concatenate([cells.ravel(), _carried(None), x, y, theta]).astype(np.float32)

  def _make_gathers(self) -> npt.NDArray[np.intp]:
    """[cells * headings, size]: the index of each number of an observation in the values; 0 where the agent cannot be."""
    pose = self._carried_index + _CARRIED
    size = VIEW_SIZE**2 * _CHANNELS + _CARRIED + 3 if self.HAS_VIEW else 3
    gathers = np.zeros((self.width * self.height * len(HEADINGS), size), np.intp)
    for x in range(1, self.width - 1):
      for y in range(1, self.height - 1):
        for heading in range(len(HEADINGS)):
          row = gathers[(y * self.width + x) * len(HEADINGS) + heading]
          row[-3:] = pose + x, pose + self.width + y, pose + self.width + self.height + heading
          if self.HAS_VIEW:
            cells = np.array([self._value_index(*cell) for cell in _view_cells((x, y), heading)])
            row[: -_CARRIED - 3] = (cells[:, None] + np.arange(_CHANNELS)).ravel()
            row[-_CARRIED - 3 : -3] = self._carried_index + np.arange(_CARRIED)
    return gathers

  def _random_row(self) -> int:
    return int(self.np_random.integers(1, self.height - 1))

  def _add_wall(self, column: int, gap_row: int | None = None) -> None:
    """Adds a wall from top to bottom, with a gap in one row or none."""
    for row in range(1, self.height - 1):
      if row != gap_row:
        self._put((column, row), self._wall)
    if gap_row is not None:
      self.gaps |= {(column, gap_row)}

  def _add_lava(self, column: int) -> None:
    """Adds a stream of lava from top to bottom, with one cell, chosen at random, to cross it."""
    lava, crossing = self.objects.Lava(), self._random_row()
    for row in range(1, self.height - 1):
      if row != crossing:
        self._put((column, row), lava)

  def _add_doors(self, column: int, doors: int, keys: int, key_cells: Sequence[Position]) -> None:
    """Adds a wall with locked doors of different colours, and keys for the first ones; rows, colours and cells are random.

    Args:
      column: of the wall.
      doors: number of doors.
      keys: number of keys; each opens another door.
      key_cells: where keys may lie.
    """
    self._add_wall(column)
    colours = self.np_random.permutation(len(KEY_COLOURS))
    rows = self.np_random.permutation(np.arange(1, self.height - 1))
    cells = self.np_random.permutation(len(key_cells))
    for i in range(doors):
      self._put((column, int(rows[i])), self.objects.Door(KEY_COLOURS[colours[i]], is_locked=True))
    for i in range(keys):
      self._put(key_cells[cells[i]], self.objects.Key(KEY_COLOURS[colours[i]]))


_NOTHING = dict.fromkeys(HAPPENINGS, False)


def _load_objects(world: str) -> types.ModuleType:
  try:
    from environments import grid_objects
  except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in ("minigrid", "pygame"):
      raise
    raise UserError(
      f"{world} needs the package {package!r}, which is not installed: install the extra 'worlds', for example with "
      "pip install -e '.[worlds]'."
    ) from error
  return grid_objects


def _check_reward(world: str, reward: float) -> float:
  if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not np.isfinite(reward):
    raise UserError(f"{world} has the step_reward {reward!r}: it must be a finite number.")
  return float(reward)


def _features(thing: Any) -> tuple[float, ...]:
  """The numbers with which the agent sees an object, or bare floor (None)."""
  features = [0.0] * _CHANNELS
  if thing is not None:
    features[_KINDS.index(thing.type)] = 1.0
    if thing.type in _COLOURED:
      features[len(_KINDS) + KEY_COLOURS.index(thing.color)] = 1.0
    if thing.type == "door":
      features[-2:] = float(thing.is_locked), float(thing.is_open)
  return tuple(features)


def _carried(thing: Any) -> tuple[float, ...]:
  return (0.0, *[-1.0] * _CHANNELS) if thing is None else (1.0, *_features(thing))


def _view_cells(position: Position, heading: int) -> list[Position]:
  (x, y), (dx, dy) = position, HEADINGS[heading]
  sides = range(-(VIEW_SIZE // 2), VIEW_SIZE // 2 + 1)  # From left to right, where right of (dx, dy) is (-dy, dx).
  return [
    (x + ahead * dx - side * dy, y + ahead * dy + side * dx) for ahead in reversed(range(VIEW_SIZE)) for side in sides
  ]

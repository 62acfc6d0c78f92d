"""The potentials for grid worlds that the SSET paper compares (Section 5.3), for the config's `environment.potential`.

The paper names them: gap (1 at the gap, 0 elsewhere), Manhattan distance to the goal and to the gap, and distance to the
right and to the left wall, all distances normalised. It does not say whether a potential grows or falls with the distance.
Here a potential is nearness, 1 at the target and 0 as far away as the grid allows, so that it attracts the agent. With
`distance=True` it is the distance itself, 0 at the target and 1 far away.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from configs import UserError

_WALLS = ("left", "right", "top", "bottom")


class _GridPotential:
  """Finds the agent's cell, in the `info` or the observation."""

  def __init__(self, size: Sequence[int] | None, key: str, origin: Sequence[int]):
    kind = type(self).__name__
    if not isinstance(key, str):
      raise UserError(f"{kind} has the key {key!r}: it must be a string, or empty to read the observation.")
    self._key = key
    self._origin = np.array(_check_cell(kind, "origin", origin, least=0))
    self._size = None if size is None else np.array(_check_cell(kind, "size", size, least=2))
    if self._size is None and not key:
      raise UserError(f"{kind} reads the observation and needs the size of the grid: give size=[width, height].")

  def _position(self, observation: Any, info: Mapping[str, Any]) -> Any:
    if self._key:
      if self._key not in info:
        raise UserError(f"{type(self).__name__} looks for {self._key!r}, which info lacks: correct the key.")
      return np.asarray(info[self._key])
    assert self._size is not None, "the constructor checked it"
    fraction = (np.asarray(observation, np.float64).reshape(-1)[:2] + 1) / 2
    return self._origin + np.rint(fraction * (self._size - 1)).astype(int)


class AtCells(_GridPotential):
  """1 while the agent stands on one of the given cells, else 0; the paper's "gap"."""

  def __init__(
    self,
    cells: Sequence[Sequence[int]],
    size: Sequence[int] | None = None,
    key: str = "position",
    origin: Sequence[int] = (0, 0),
  ):
    """Makes the potential.

    Args:
      cells: (x, y) each.
      size: (width, height) of the grid in cells, without the outer wall; needed if `key` is empty.
      key: of the agent's (x, y) in `info`. If empty, the position is read from the first two numbers of the observation,
        each scaled to [-1, 1] over the grid, as in `three_rooms`.
      origin: (x, y) of the top left cell; (1, 1) if the outer wall is part of the grid, as in MiniGrid.

    Raises:
      UserError: an argument is not valid.
    """
    super().__init__(size, key, origin)
    self._cells = _check_cells("AtCells", cells)

  def __call__(self, observation: Any, info: Mapping[str, Any]) -> float:
    """phi(s)."""
    return float((self._cells == self._position(observation, info)).all(axis=1).any())


class Manhattan(_GridPotential):
  """Nearness to the nearest of the given cells: 1 on it, and 1 / (width + height - 2) less for each cell further away.

  The paper's "manhattan_goal" and "manhattan_gap". Walls are ignored, so the agent's way may be longer.
  """

  def __init__(
    self,
    cells: Sequence[Sequence[int]],
    size: Sequence[int],
    key: str = "position",
    origin: Sequence[int] = (0, 0),
    distance: bool = False,
  ):
    """Makes the potential; `size` is required, `distance=True` reverses it, the other arguments are those of `AtCells`.

    Raises:
      UserError: an argument is not valid.
    """
    self._longest = sum(_check_cell("Manhattan", "size", size, least=2)) - 2
    super().__init__(size, key, origin)
    self._cells = _check_cells("Manhattan", cells)
    self._distance = _check_bool("Manhattan", distance)

  def __call__(self, observation: Any, info: Mapping[str, Any]) -> float:
    """phi(s), in [0, 1]."""
    steps = np.abs(self._cells - self._position(observation, info)).sum(axis=1).min()
    return float(steps / self._longest if self._distance else 1 - steps / self._longest)


class Wall(_GridPotential):
  """Nearness to an outer wall: 1 in the cells along it and 0 in those along the opposite wall.

  The paper's "right-wall" and "left-wall".
  """

  def __init__(
    self,
    side: Literal["left", "right", "top", "bottom"],
    size: Sequence[int],
    key: str = "position",
    origin: Sequence[int] = (0, 0),
    distance: bool = False,
  ):
    """Makes the potential; `size` is required, `distance=True` reverses it, the other arguments are those of `AtCells`.

    Raises:
      UserError: an argument is not valid.
    """
    if side not in _WALLS:
      raise UserError(f"Wall has the side {side!r}: use one of {', '.join(_WALLS)}.")
    self._axis = 0 if side in ("left", "right") else 1
    self._longest = _check_cell("Wall", "size", size, least=2)[self._axis] - 1
    super().__init__(size, key, origin)
    # Nearness to the right or the bottom grows with the coordinate, and so does the distance from the left or the top.
    self._grows = (side in ("right", "bottom")) != _check_bool("Wall", distance)

  def __call__(self, observation: Any, info: Mapping[str, Any]) -> float:
    """phi(s), in [0, 1]."""
    steps = self._position(observation, info)[self._axis] - self._origin[self._axis]
    return float(steps / self._longest if self._grows else 1 - steps / self._longest)


def paper_potentials(
  size: Sequence[int], gaps: Sequence[Sequence[int]], goal: Sequence[int], **arguments: Any
) -> dict[str, tuple[str, dict[str, Any]]]:
  """The paper's potentials by its names, each as `environment.potential` and `environment.potential_arguments`.

  Args:
    size: (width, height) of the grid in cells.
    gaps: (x, y) of each gap.
    goal: (x, y).
    arguments: arguments that all potentials take, such as `key` and `origin`.
  """
  common = {"size": list(size), **arguments}
  gap_cells, goal_cells = [list(gap) for gap in gaps], [list(goal)]
  return {
    "none": ("", {}),
    "gap": ("environments.potentials:AtCells", {"cells": gap_cells, **common}),
    "manhattan_goal": ("environments.potentials:Manhattan", {"cells": goal_cells, **common}),
    "manhattan_gap": ("environments.potentials:Manhattan", {"cells": gap_cells, **common}),
    "right_wall": ("environments.potentials:Wall", {"side": "right", **common}),
    "left_wall": ("environments.potentials:Wall", {"side": "left", **common}),
  }


def _check_cell(kind: str, name: str, cell: Any, least: int | None = None) -> tuple[int, int]:
  whole = isinstance(cell, (list, tuple)) and len(cell) == 2 and all(type(value) is int for value in cell)
  if not whole or (least is not None and min(cell) < least):
    bound = "" if least is None else f" of at least {least}"
    raise UserError(f"{kind} has the {name} {cell!r}: give two whole numbers{bound}, for x and for y.")
  return cell[0], cell[1]


def _check_cells(kind: str, cells: Any) -> Any:
  if not isinstance(cells, (list, tuple)) or not cells:
    raise UserError(f"{kind} has the cells {cells!r}: give a list of at least one [x, y].")
  return np.array([_check_cell(kind, "cell", cell) for cell in cells])


def _check_bool(kind: str, distance: Any) -> bool:
  if not isinstance(distance, bool):
    raise UserError(f"{kind} has distance={distance!r}: it must be true or false.")
  return distance

"""Exact search for the nearest of many points, which numba compiles.

faiss takes twice as long for the one or two hundred queries of a draw: it writes all products to memory and then reads them. Here
a tile of points stays in the processor's first cache while all queries look at it.
"""

import numpy as np
import numpy.typing as npt

from configs.compiling import fused_helper, helper, kernel
from replay_memory.kernels import NONE

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

# Points of a tile, and components that are multiplied in one pass over it.
_TILE = 512
_COMPONENTS = 8


def bytes_of_point(components: int) -> int:
  """What a point takes in an index."""
  return 4 * (_padded(components) + 1)


def _padded(components: int) -> int:
  return -(-components // _COMPONENTS) * _COMPONENTS


class ExactIndex:
  """Points, tile by tile."""

  def __init__(self, points: Float32):
    """Copies points.

    Args:
      points: float32 [n, components].
    """
    count, components = points.shape
    shape = (-(-count // _TILE), _padded(components), _TILE)
    # A point that is there to fill the last tile is infinitely far from all.
    self._tiles = np.zeros(shape, np.float32)
    self._halves = np.full((shape[0], _TILE), np.inf, np.float32)
    halves = np.float32(0.5) * np.einsum("ij,ij->i", points, points)
    for number, tile in enumerate(self._tiles):
      part = slice(number * _TILE, min((number + 1) * _TILE, count))
      tile[:components, : part.stop - part.start] = points[part].T
      self._halves[number, : part.stop - part.start] = halves[part]

  def search(self, queries: Float32, count: int) -> Int64:
    """The places of the nearest points by Euclidean distance, from the nearest on.

    Args:
      queries: float32 [m, components].
      count: k.

    Returns:
      int64 [m, k]; `NONE` after the last where there are fewer points.
    """
    padded = np.zeros((len(queries) + len(queries) % 2, self._tiles.shape[1]), np.float32)
    padded[: len(queries), : queries.shape[1]] = queries
    places = np.full((len(padded), count), NONE, np.int64)
    best = np.full(places.shape, -np.inf, np.float32)
    _search(self._tiles, self._halves, padded, np.empty((2, _TILE), np.float32), best, places)
    return places[: len(queries)]


@fused_helper
def _add_products(sums: Float32, others: Float32, tile: Float32, x: Float32, y: Float32) -> None:
  """Adds the products of two queries with all points of a tile, eight components of them, to their sums.

  Args:
    sums: float32 [tile], of x.
    others: float32 [tile], of y.
    tile: float32 [8, tile].
    x: float32 [8].
    y: float32 [8].
  """
  for place in range(len(sums)):
    left, right = sums[place], others[place]
    for component in range(_COMPONENTS):
      left += x[component] * tile[component, place]
      right += y[component] * tile[component, place]
    sums[place], others[place] = left, right


@helper
def _count_above(values: Float32, bound: float) -> int:
  """How many values are above a bound."""
  count = 0
  for place in range(len(values)):
    count += values[place] > bound
  return count


@helper
def _insert(best: Float32, places: Int64, value: float, place: int) -> None:
  """Inserts a value, which is above the last one, into a list from the largest to the smallest."""
  index = len(best) - 1
  while index > 0 and best[index - 1] < value:
    best[index], places[index] = best[index - 1], places[index - 1]
    index -= 1
  best[index], places[index] = value, place


@kernel
def _search(tiles: Float32, halves: Float32, queries: Float32, sums: Float32, best: Float32, places: Int64) -> None:
  """Finds the points with the largest x·y - |y|²/2, which are those with the smallest |x - y|².

  Args:
    tiles: float32 [tiles, components, tile], y; components are a multiple of eight.
    halves: float32 [tiles, tile], |y|²/2.
    queries: float32 [m, components], x; m is even.
    sums: float32 [2, tile], for use here.
    best: float32 [m, k], at first -inf; the largest values, from the largest on.
    places: int64 [m, k], of the points that have them.
  """
  last = best.shape[1] - 1
  for number in range(len(tiles)):
    tile = tiles[number]
    for pair in range(0, len(queries), 2):
      for side in range(2):
        for place in range(_TILE):
          sums[side, place] = -halves[number, place]
      for first in range(0, tile.shape[0], _COMPONENTS):
        end = first + _COMPONENTS
        _add_products(sums[0], sums[1], tile[first:end], queries[pair, first:end], queries[pair + 1, first:end])
      for side in range(2):
        query, values = pair + side, sums[side]
        if _count_above(values, best[query, last]):
          for place in range(_TILE):
            if values[place] > best[query, last]:
              _insert(best[query], places[query], values[place], number * _TILE + place)

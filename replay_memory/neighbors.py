"""The nearest neighbours of a memory's rows in state and action (NMER, Algorithm 1 and Appendix B)."""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from replay_memory.kernels import NONE
from replay_memory.memory import ReplayMemory
from replay_memory.nearest import ExactIndex, bytes_of_point
from replay_memory.zscores import Float32, Int64, ZScores

# Up to so many rows every search is exact. Beyond, rows are sorted into cells, and a search looks into the nearest of them.
EXACT_ROWS = 200_000
# Cells for each square root of the rows, and how many of them a search looks into.
_CELLS_PER_ROOT = 1.0
_PROBES = 16
# Rows that each cell's centre is found by.
_TRAINING_ROWS_PER_CELL = 40


class Neighbors:
  """Keeps a list of the k nearest rows for each row, and gives one of them at random.

  Distances are Euclidean, between z-scores. A row is no neighbour of its own; a row equal to it is.

  The index holds the rows that were stored when the z-scores' moments were made, and is made anew with them. A row's list is made
  when the row is drawn, and again when it is drawn after the index was made anew.
  """

  def __init__(self, memory: ReplayMemory, zscores: ZScores, count: int, exact_rows: int = EXACT_ROWS):
    """Searches nothing yet.

    Args:
      memory: whose rows are searched.
      zscores: of the memory's rows.
      count: k, the length of a list.
      exact_rows: up to so many rows every search is exact.

    Raises:
      UserError: faiss is not installed.
    """
    self._memory, self._zscores = memory, zscores
    self._count, self._exact_rows = count, exact_rows
    self._faiss = import_faiss()
    # Finds the places of the k nearest rows in the index, int64 [n, k], for z-scores, float32 [n, words], and k.
    self._search: Callable[[Float32, int], Int64] = _find_none
    # The handles of the rows in the index. Lists name them by their places here.
    self._indexed = np.empty(0, np.uint64)
    slots = memory.plan.slots
    self._lists = np.full((slots, count), NONE, np.int32)
    self._epochs = np.zeros(slots, np.int32)  # Of each row's list; 0 for a row that has none.
    memory.follow_with(self)

  def added(self, slots: Int64) -> None:
    """New rows have no list; see `Rule.added`."""
    self._epochs[slots] = 0

  def restored(self) -> None:
    """Nothing is kept of a restored row but what is made anew; see `Rule.restored`."""

  def partners(self, slots: Int64, rng: np.random.Generator) -> Int64:
    """A neighbour of each row, drawn uniformly from those of its list that are still stored.

    Args:
      slots: int64 [n], of stored rows.
      rng: of the draws.

    Returns:
      int64 [n], the slots of the neighbours; `NONE` for a row without any, which is the only one that is stored.
    """
    if self._zscores.is_due:
      self._make_index()
    self._make_lists(slots)
    chosen = self._choose(slots, rng)
    if (chosen == NONE).any() and self._zscores.received < self._memory.received:
      # All that was in a list is gone: search among what is stored now.
      self._make_index()
      self._make_lists(slots)
      chosen = self._choose(slots, rng)
    return chosen

  def list_of(self, slot: int) -> npt.NDArray[np.uint64]:
    """The handles of a row's neighbours, uint64 [at most k], as they were last found, from the nearest to the farthest."""
    places = self._lists[slot] if self._epochs[slot] == self._zscores.epoch else self._lists[slot][:0]
    handles: npt.NDArray[np.uint64] = self._indexed[places[places != NONE]]
    return handles

  def _make_index(self) -> None:
    self._search = _find_none  # So that memory never holds two indices.
    slots, points = self._zscores.renew()
    self._indexed = self._memory.handles_of(slots)
    self._search = ExactIndex(points).search if len(points) <= self._exact_rows else self._search_in_cells(points)

  def _search_in_cells(self, points: Float32) -> Callable[[Float32, int], Int64]:
    cells, width = round(_CELLS_PER_ROOT * math.sqrt(len(points))), points.shape[1]
    index = self._faiss.IndexIVFFlat(self._faiss.IndexFlatL2(width), width, cells)
    index.nprobe = _PROBES
    index.train(points[:: max(1, len(points) // (_TRAINING_ROWS_PER_CELL * cells))])
    index.add(points)

    def search(queries: Float32, count: int) -> Int64:
      places: Int64 = index.search(queries, count)[1]
      return places

    return search

  def _make_lists(self, slots: Int64) -> None:
    """Makes those lists that are missing or older than the index, in one call."""
    slots = np.unique(slots[self._epochs[slots] != self._zscores.epoch])
    if not len(slots):
      return
    points = self._zscores.of(self._memory.take(slots))
    # One more, as a row that is in the index finds itself. It need not: equal rows may be as many.
    places = self._search(points, min(self._count + 1, len(self._indexed)))
    is_own = (places != NONE) & (self._indexed[places] == self._memory.handles_of(slots)[:, None])
    places = np.where(is_own, NONE, places)
    others = np.argsort(is_own, axis=1, kind="stable")[:, : self._count]
    self._lists[slots] = NONE
    self._lists[slots, : others.shape[1]] = np.take_along_axis(places, others, axis=1)
    self._epochs[slots] = self._zscores.epoch

  def _choose(self, slots: Int64, rng: np.random.Generator) -> Int64:
    # Nearly always a list is full, and the row at any of its places is stored.
    chosen = self._stored(self._lists[slots, rng.integers(self._count, size=len(slots))])
    missed = np.flatnonzero(chosen == NONE)
    if len(missed):
      stored = self._stored(self._lists[slots[missed]])
      # The largest of random keys, among which those without a row are the smallest.
      keys = np.where(stored != NONE, rng.random(stored.shape, np.float32), np.float32(-1))
      chosen[missed] = stored[np.arange(len(missed)), keys.argmax(axis=1)]
    return chosen

  def _stored(self, places: npt.NDArray[np.int32]) -> Int64:
    """The slots of the rows at places of the index; `NONE` where there is no place, or its row is gone."""
    return np.where(places != NONE, self._memory.slots_of(self._indexed[places]), NONE)


def _find_none(points: Float32, count: int) -> Int64:
  """Searches an index without a row."""
  return np.full((len(points), count), NONE, np.int64)


def bytes_of(slots: int, count: int, width: int) -> int:
  """What lists and index of a full memory take.

  Args:
    slots: rows that can be stored.
    count: k.
    width: numbers of a row that distances are made of.
  """
  # A list and its epoch; a row's handle, its z-scores while the index is made of them, and its place in the index.
  return slots * (4 * count + 4 + 8 + 4 * width + bytes_of_point(width))


def import_faiss() -> Any:
  """The module faiss, which is told to use one thread.

  Raises:
    UserError: it is not installed.
  """
  try:
    faiss = importlib.import_module("faiss")
  except ImportError:
    raise UserError(
      "learner.mixup.kind is 'neighbors', which searches with faiss, and that cannot be imported: install "
      "faiss-cpu==1.8.0.post1, which the images leave out, or choose another kind."
    ) from None
  faiss.omp_set_num_threads(1)
  return faiss

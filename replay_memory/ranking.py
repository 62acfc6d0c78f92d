"""Rank-based priorities of a memory's rows: PER's second variant (Schaul et al., 2016, Section 3.3)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from configs.compiling import kernel
from replay_memory.kernels import NONE, Int32, Int64
from replay_memory.memory import ReplayMemory
from replay_memory.state import State

# The size of a row's latest TD error, infinite until it was learned from.
_ERRORS = "ranked_error"
# The priority of rank 1.
LARGEST_PRIORITY = 1.0
_SORTED = "ranks/"
# Of the sort: a float32 that is not below 0 has 31 bits, three digits.
_KEY_BITS = 31
_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS


class Ranking:
  """Gives rows the priority 1 / rank, of which a table's exponent makes the weight rank^-alpha.

  The rank of a row in a table is one more than the number of the table's rows with a larger |TD error|: its place when they are
  sorted, the largest first. Rows with the same error share the best place of them. A row that was never learned from has an
  infinite error, so it has rank 1, PER's maximal priority (Algorithm 1, line 6), until it is learned from.

  A row has one error, whichever tables hold it: the latest, from whichever of them it was drawn. It has a rank in each.

  One error changes the rank of every row that it passes. So `rank_all` makes all ranks anew, and between two calls of it a row
  that is learned from gets the rank that its error has among those of the last call. Other rows keep theirs, and a row that is
  new in a table has rank 1 there.
  """

  def __init__(self, memory: ReplayMemory):
    """Ranks nothing yet.

    Args:
      memory: new; its tables with the selector `ranked` are ranked.
    """
    self._memory = memory
    self._errors = memory.add_column(_ERRORS, np.float32, np.inf)
    tables = [table for table, selector in enumerate(memory.plan.selectors) if selector == "ranked"]
    self._sorted = {table: np.empty(0, np.float32) for table in tables}

  def update(self, handles: npt.NDArray[np.uint64], errors: npt.NDArray[np.float32]) -> None:
    """Sets the errors of rows, and their ranks among the errors of the last `rank_all`.

    Args:
      handles: uint64 [n]; a row that is no longer stored is passed over, and the later one counts where a row is named twice.
      errors: float32 [n], |TD error|, finite.
    """
    slots = self._memory.slots_of(handles)
    stored = slots != NONE
    self._errors[slots[stored]] = errors[stored]
    for table, ascending in self._sorted.items():
      ranks = 1 + len(ascending) - np.searchsorted(ascending, errors, side="right")
      self._memory.set_priorities(handles, np.full(len(handles), table), 1.0 / ranks)

  def rank_all(self) -> None:
    """Makes the rank of every row of every ranked table anew, from all errors."""
    for table in self._sorted:
      errors = self._errors[self._memory.contents(table)]
      self._sorted[table], ranks = ranked(errors)
      self._memory.set_all_priorities(table, 1.0 / ranks)

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """The errors of the last `rank_all`; the memory's state has the rest."""
    return {f"{_SORTED}{table}": ascending for table, ascending in self._sorted.items()}

  def restore(self, state: State) -> None:
    """Restores what `state` returned."""
    self._sorted = {table: np.array(state[f"{_SORTED}{table}"]) for table in self._sorted}


def ranked(errors: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
  """The errors in ascending order, float32 [n], and the rank of each, one more than the number of larger ones, int64 [n].

  Args:
    errors: float32 [n], no NaN, not below 0; infinity is one.
  """
  errors, count = np.ascontiguousarray(errors), len(errors)
  ascending, ranks = np.empty(count, np.float32), np.empty(count, np.int64)
  # Floats that are not below 0 have the order of their bits.
  _rank(
    errors.view(np.int32), ascending.view(np.int32), ranks, np.empty((2, count), np.int64), np.empty(_DIGITS, np.int64)
  )
  return ascending, ranks


@kernel
def _rank(keys: Int32, ascending: Int32, ranks: Int64, orders: Int64, places: Int64) -> None:
  """Sorts by the lowest digit, then by the next: each pass keeps the order of the one before (Knuth, 5.2.5, Algorithm R).

  Args:
    keys: int32 [n], not below 0.
    ascending: int32 [n], is set to the keys in their order.
    ranks: int64 [n], is set to one more than the number of larger keys, for each.
    orders: int64 [2, n], room for the keys' indices before and after a pass.
    places: int64 [digits], room for where the next key of each digit goes.
  """
  count, source = len(keys), 0
  for index in range(count):
    orders[0, index] = index
  for shift in range(0, _KEY_BITS, _DIGIT_BITS):
    places[:] = 0
    for index in range(count):
      places[keys[index] >> shift & (_DIGITS - 1)] += 1
    before = 0
    for digit in range(_DIGITS):
      found = places[digit]
      places[digit] = before
      before += found
    for index in range(count):
      at = orders[source, index]
      digit = keys[at] >> shift & (_DIGITS - 1)
      orders[1 - source, places[digit]] = at
      places[digit] += 1
    source = 1 - source
  rank = 1
  for index in range(count - 1, -1, -1):
    at = orders[source, index]
    if index < count - 1 and keys[at] != ascending[index + 1]:
      rank = count - index
    ascending[index] = keys[at]
    ranks[at] = rank

"""Works out the priorities of prioritised tables (PER)."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from configs import RunConfig
from configs.run import NewItems
from learner.sources.block import Block
from replay_server.contract.layout import MAX_PRIORITY

# Takes the indices of tables, int64 [n], handles of rows in them, uint64 [n], and their priorities, float64 [n]; the later one
# counts where a row is named twice.
SetPriorities: TypeAlias = Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.float64]], None]

# What a gradient step leaves of a table's largest priority, if none of its rows has a larger one. A table that turns over in
# some thousand updates, as those of the grid worlds do, then forgets a spike about when its row is evicted.
LARGEST_KEPT = 0.999
# What a gradient step adds to a table's running mean.
MEAN_RATE = 0.1


def priorities_of(td_errors: npt.NDArray[np.float32], epsilon: float) -> npt.NDArray[np.float64]:
  """Proportional priorities, |TD error| + epsilon (Schaul et al., 2016, Section 3.3), at most `MAX_PRIORITY`.

  Args:
    td_errors: float [...].
    epsilon: above 0.

  Returns:
    float64 [...]; NaN where the TD error is not a number.
  """
  return np.minimum(np.abs(td_errors.astype(np.float64)) + epsilon, MAX_PRIORITY)


def new_item_priority(before: float, priorities: npt.NDArray[np.float64], mode: NewItems) -> float:
  """The priority that a table's new items get after a block.

  The rule is applied once for each gradient step. A step none of whose rows are from the table leaves a mean as it is.

  Args:
    before: the priority before the block; NaN if the table's rows never had one.
    priorities: float64 [K, batch], new priorities of the table's rows; NaN in the places of others.
    mode: `largest` or `mean`; see `PriorityConfig`.
  """
  is_given = ~np.isnan(priorities)
  given = np.where(is_given, priorities, 0.0)
  counts = is_given.sum(axis=1)
  means, largest = given.sum(axis=1) / np.maximum(counts, 1), given.max(axis=1, initial=0.0)
  value = before
  for count, mean, high in zip(counts.tolist(), means.tolist(), largest.tolist(), strict=True):
    if mode == "largest":
      value = high if math.isnan(value) and count else max(LARGEST_KEPT * value, high)
    elif count:
      value = mean if math.isnan(value) else value + MEAN_RATE * (mean - value)
  return value


class TablePriorities:
  """Gives rows that were learned from new priorities in the tables that they were drawn from.

  Attributes:
    of_new_items: float32 [tables], the priority that new items of each table get (`PriorityConfig.new_items`); NaN as long as
      none of the table's rows was updated.
    refused: number of TD errors that gave no valid priority: NaN is not sent, too large a priority is clipped.
  """

  def __init__(self, config: RunConfig, set_priorities: SetPriorities):
    """Takes the tables of `config`; sets nothing yet."""
    self._set_priorities = set_priorities
    self._epsilon = config.replay.priority.epsilon
    self._new_items = config.replay.priority.new_items
    self._prioritized = np.array([table.selector == "prioritized" for table in config.replay.all_tables])
    self.of_new_items = np.full(len(self._prioritized), np.nan, np.float32)
    self.refused = 0

  @property
  def in_use(self) -> bool:
    """Whether any table draws by priority."""
    return bool(self._prioritized.any())

  @property
  def for_new_items(self) -> tuple[float, ...]:
    """`of_new_items`, and 1 as long as none of the table's rows was updated."""
    return tuple(np.nan_to_num(self.of_new_items, nan=1.0).tolist())

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sets new priorities, in one call.

    Args:
      block: as drawn.
      td_errors: float32 [K, batch], of its rows; the later one counts where a row was drawn twice.

    Raises:
      ServerLost: the server does not answer.
    """
    if not self.in_use:
      return
    priorities = priorities_of(td_errors, self._epsilon)
    for table in np.flatnonzero(self._prioritized):
      own = np.where(block.tables == table, priorities, np.nan)
      self.of_new_items[table] = new_item_priority(float(self.of_new_items[table]), own, self._new_items)
    drawn = self._prioritized[block.tables]
    self.refused += int((drawn & ~(priorities < MAX_PRIORITY)).sum())
    drawn &= ~np.isnan(priorities)
    if drawn.any():
      self._set_priorities(block.tables[drawn], block.handles[drawn], priorities[drawn])

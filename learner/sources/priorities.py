"""Works out the priorities of prioritised tables (PER, ReaPER and ranks)."""

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from configs import PriorityConfig, RunConfig
from configs.run import NewItems
from learner.sources.block import Block
from learner.sources.source import State
from replay_memory.memory import ReplayMemory
from replay_memory.ranking import LARGEST_PRIORITY, Ranking
from replay_memory.reliability import Reliability
from replay_server.contract.layout import MAX_PRIORITY

# Takes the indices of tables, int64 [n], handles of rows in them, uint64 [n], and their priorities, float64 [n]; the later one
# counts where a row is named twice.
SetPriorities: TypeAlias = Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.float64]], None]

# What a gradient step leaves of a table's largest priority, if none of its rows has a larger one. A table that turns over in
# some thousand updates, as those of the grid worlds do, then forgets a spike about when its row is evicted.
LARGEST_KEPT = 0.999
# What a gradient step adds to a table's running mean.
MEAN_RATE = 0.1
_OF_NEW_ITEMS = "new_item_priorities"
_UNTIL_RANKING = "updates_until_ranking"


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


class Priorities(Protocol):
  """Gives rows that were learned from new priorities.

  Attributes:
    refused: number of TD errors that gave no valid priority: NaN is not taken, too large a priority is clipped.
  """

  refused: int

  @property
  def in_use(self) -> bool:
    """Whether any table draws by priority."""
    ...

  @property
  def for_new_items(self) -> tuple[float, ...]:
    """The priority of new items of each table, in layout order."""
    ...

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sets new priorities.

    Args:
      block: as drawn.
      td_errors: float32 [K, batch], of its rows; the later one counts where a row was drawn twice.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

  def state(self) -> State:
    """What `restore` needs, for the learner's checkpoint, besides what the tables have."""
    ...

  def restore(self, state: State) -> None:
    """Restores what `state` returned."""
    ...


class TablePriorities:
  """Gives rows that were learned from new priorities in the tables that they were drawn from.

  Attributes:
    of_new_items: float32 [tables], the priority that new items of each table get (`PriorityConfig.new_items`); NaN as long as
      none of the table's rows was updated.
    refused: see `Priorities`.
  """

  def __init__(self, config: RunConfig, set_priorities: SetPriorities):
    """Takes the tables of `config`; sets nothing yet."""
    self._set_priorities = set_priorities
    self._epsilon = config.replay.priority.epsilon
    self._new_items = config.replay.priority.new_items
    self._prioritized = np.array([table.selector == "prioritized" for table in config.replay.all_tables])
    self._in_use = bool(self._prioritized.any())
    self.of_new_items = np.full(len(self._prioritized), np.nan, np.float32)
    self.refused = 0

  @property
  def in_use(self) -> bool:
    """See `Priorities.in_use`."""
    return self._in_use

  @property
  def for_new_items(self) -> tuple[float, ...]:
    """`of_new_items`, and 1 as long as none of the table's rows was updated."""
    return tuple(np.nan_to_num(self.of_new_items, nan=1.0).tolist())

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sets new priorities, in one call; see `Priorities.update`."""
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

  def state(self) -> State:
    """The priorities of new items."""
    return {_OF_NEW_ITEMS: self.of_new_items.copy()}

  def restore(self, state: State) -> None:
    """Restores the priorities of new items."""
    self.of_new_items = np.array(state[_OF_NEW_ITEMS])


class ReliabilityPriorities:
  """Gives rows in the learner's own memory ReaPER's criteria: those that were learned from, and all that depend on them.

  Attributes:
    refused: see `Priorities`.
  """

  in_use = True

  def __init__(self, priority: PriorityConfig, memory: ReplayMemory):
    """Follows the memory's rows.

    Args:
      priority: the exponents.
      memory: new, of a config whose criterion is ReaPER's.
    """
    self._reliability = Reliability(memory, priority.exponent, priority.reliability_exponent)
    self._epsilon = priority.epsilon
    self.refused = 0

  @property
  def for_new_items(self) -> tuple[float, ...]:
    """The largest criterion in each table."""
    return tuple(self._reliability.new_criteria.tolist())

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sets all criteria anew; see `Priorities.update`. A row's error is one value, whichever table it was drawn from."""
    errors = priorities_of(td_errors, self._epsilon).ravel()
    self.refused += int((~(errors < MAX_PRIORITY)).sum())
    given = ~np.isnan(errors)
    self._reliability.update(block.handles.ravel()[given], errors[given])

  def state(self) -> State:
    """Empty: the memory has the errors."""
    return {}

  def restore(self, state: State) -> None:
    """Restores nothing."""
    del state


class RankPriorities:
  """Gives rows in the learner's own memory priorities by the rank of their |TD error|.

  All ranks are made anew after the first block, and after each in which another `ranking_period_updates` have passed.

  Attributes:
    refused: see `Priorities`.
  """

  in_use = True

  def __init__(self, priority: PriorityConfig, memory: ReplayMemory):
    """Follows the memory's rows.

    Args:
      priority: the period.
      memory: new, of a config with ranked tables.
    """
    self._ranking = Ranking(memory)
    self._period = priority.ranking_period_updates
    self._new = (LARGEST_PRIORITY,) * len(memory.table_names)
    self._until_ranking = 0
    self.refused = 0

  @property
  def for_new_items(self) -> tuple[float, ...]:
    """That of rank 1 in each table."""
    return self._new

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sets new ranks; see `Priorities.update`. A row's error is one value, whichever table it was drawn from."""
    errors = np.minimum(np.abs(td_errors.ravel()), np.float32(MAX_PRIORITY))
    self.refused += int((~(errors < MAX_PRIORITY)).sum())
    given = ~np.isnan(errors)
    self._ranking.update(block.handles.ravel()[given], errors[given])
    self._until_ranking -= len(block.tables)
    if self._until_ranking < 0:
      self._ranking.rank_all()
      self._until_ranking %= self._period

  def state(self) -> State:
    """When ranks are due, and the errors that they are found among until then."""
    return {_UNTIL_RANKING: np.array(self._until_ranking), **self._ranking.state()}

  def restore(self, state: State) -> None:
    """Restores what `state` returned."""
    self._until_ranking = int(state[_UNTIL_RANKING])
    self._ranking.restore(state)

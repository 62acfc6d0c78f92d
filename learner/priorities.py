"""Priorities of the tables that draw by TD error, and the weights that correct for them (PER)."""

import numpy as np

from configs import RunConfig
from learner.sampler import Block
from replay_server.contract.connection import Connection
from replay_server.contract.layout import MAX_PRIORITY


def priorities_of(td_errors: np.ndarray, epsilon: float) -> np.ndarray:
  """Proportional priorities, |TD error| + epsilon (Schaul et al., 2016, Section 3.3), at most `MAX_PRIORITY`.

  Args:
    td_errors: float [...].
    epsilon: above 0.

  Returns:
    float64 [...]; NaN where the TD error is not a number.
  """
  return np.minimum(np.abs(td_errors.astype(np.float64)) + epsilon, MAX_PRIORITY)


def importance_weights(
  probabilities: np.ndarray, table_sizes: np.ndarray, prioritized: np.ndarray, exponent: float
) -> np.ndarray:
  """Weights that undo, for an exponent of 1 wholly, what priorities do to the shares within a table.

  Section 3.4 of Schaul et al., 2016, for each table by itself: (N_i P_i)^-beta, divided by the batch's largest.

  Args:
    probabilities: float64 [K, batch], P_i of each row within its table.
    table_sizes: int64 [K, batch], N_i.
    prioritized: bool [K, batch], whether the row's table draws by priority; where not the weight before division is 1.
    exponent: beta.

  Returns:
    float32 [K, batch], in (0, 1].
  """
  if not prioritized.any():
    return np.ones(probabilities.shape, np.float32)
  weights = np.where(prioritized, probabilities * table_sizes, 1.0) ** -exponent
  return (weights / weights.max(axis=1, keepdims=True)).astype(np.float32)


class TablePriorities:
  """Keeps the priorities of what was drawn up to date on the server, in the table that it was drawn from.

  Attributes:
    largest: float32 [tables], the largest priority seen in each table, which its new items get; 1 before there is one.
    refused: TD errors that were no number or above the largest priority: those are clipped, these not sent.
  """

  def __init__(self, connection: Connection, config: RunConfig):
    """Makes them for the tables of `config`."""
    self._connection = connection
    self._config = config.replay.priority
    self._names = [table.name for table in config.replay.all_tables]
    self._prioritized = np.array([table.selector == "prioritized" for table in config.replay.all_tables])
    self.largest = np.ones(len(self._names), np.float32)
    self.refused = 0

  @property
  def in_use(self) -> bool:
    """Whether any table draws by priority."""
    return bool(self._prioritized.any())

  def weights(self, block: Block, updates: int) -> np.ndarray:
    """Importance weights of a block's rows, float32 [K, batch].

    Args:
      block: as drawn.
      updates: gradient steps before it, for the schedule of beta; within the block it stays.
    """
    exponent = self._config.importance_exponent_at(updates)
    return importance_weights(block.probabilities, block.table_sizes, self._prioritized[block.tables], exponent)

  def update(self, block: Block, td_errors: np.ndarray) -> None:
    """Sends new priorities, in one call a table; returns when the server has them.

    Args:
      block: as drawn.
      td_errors: float32 [K, batch], of its rows; of a row that was drawn twice the later counts.

    Raises:
      ServerLost: the server does not answer.
    """
    if not self.in_use:
      return
    priorities = priorities_of(td_errors, self._config.epsilon)
    is_number = ~np.isnan(priorities)
    for table in np.flatnonzero(self._prioritized):
      drawn = block.tables == table
      self.refused += int((drawn & ~(priorities < MAX_PRIORITY)).sum())
      drawn &= is_number
      updates = dict(zip(block.keys[drawn].tolist(), priorities[drawn].tolist(), strict=True))
      if updates:
        self.largest[table] = max(self.largest[table], priorities[drawn].max())
        self._send(self._names[table], updates)

  def _send(self, table: str, updates: dict[int, float]) -> None:
    # Keys that the table has evicted meanwhile are passed over by the server.
    self._connection.call(
      lambda: self._connection.client.mutate_priorities(table, updates), f"updating priorities of table {table!r}"
    )

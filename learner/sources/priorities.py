"""Updates the priorities of the server's prioritised tables (PER)."""

import numpy as np
import numpy.typing as npt

from configs import RunConfig
from learner.sources.block import Block
from replay_server.contract.connection import Connection
from replay_server.contract.layout import MAX_PRIORITY


def priorities_of(td_errors: npt.NDArray[np.float32], epsilon: float) -> npt.NDArray[np.float64]:
  """Proportional priorities, |TD error| + epsilon (Schaul et al., 2016, Section 3.3), at most `MAX_PRIORITY`.

  Args:
    td_errors: float [...].
    epsilon: above 0.

  Returns:
    float64 [...]; NaN where the TD error is not a number.
  """
  return np.minimum(np.abs(td_errors.astype(np.float64)) + epsilon, MAX_PRIORITY)


class TablePriorities:
  """Sends new priorities of rows that were learned from to the tables that they were drawn from.

  Attributes:
    largest: float32 [tables], the largest priority seen in each table, which its new items get; 1 before the first.
    refused: number of TD errors that gave no valid priority: NaN is not sent, too large a priority is clipped.
  """

  def __init__(self, connection: Connection, config: RunConfig):
    """Takes the tables of `config`; sends nothing yet."""
    self._connection = connection
    self._epsilon = config.replay.priority.epsilon
    self._names = [table.name for table in config.replay.all_tables]
    self._prioritized = np.array([table.selector == "prioritized" for table in config.replay.all_tables])
    self.largest = np.ones(len(self._names), np.float32)
    self.refused = 0

  @property
  def in_use(self) -> bool:
    """Whether any table draws by priority."""
    return bool(self._prioritized.any())

  def update(self, block: Block, td_errors: npt.NDArray[np.float32]) -> None:
    """Sends new priorities, in one call per table; returns when the server has them.

    Args:
      block: as drawn.
      td_errors: float32 [K, batch], of its rows; the later one counts where a row was drawn twice.

    Raises:
      ServerLost: the server does not answer.
    """
    if not self.in_use:
      return
    priorities = priorities_of(td_errors, self._epsilon)
    is_number = ~np.isnan(priorities)
    for table in np.flatnonzero(self._prioritized):
      drawn = block.tables == table
      self.refused += int((drawn & ~(priorities < MAX_PRIORITY)).sum())
      drawn &= is_number
      updates = dict(zip(block.handles[drawn].tolist(), priorities[drawn].tolist(), strict=True))
      if updates:
        self.largest[table] = max(self.largest[table], priorities[drawn].max())
        self._send(self._names[table], updates)

  def _send(self, table: str, updates: dict[int, float]) -> None:
    # The server ignores keys that the table has evicted meanwhile.
    self._connection.call(
      lambda: self._connection.client.mutate_priorities(table, updates), f"updating priorities of table {table!r}"
    )

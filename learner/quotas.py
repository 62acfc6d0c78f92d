"""How many rows of a batch come from each table (SSET, Algorithm 1, line 18)."""

import numpy as np

# A share that is whole but for rounding must neither lose a row to it nor win one.
_ROUNDING = 1e-9


class QuotaSchedule:
  """Whole numbers of rows for each table and batch whose long-run shares are exactly the tables' probabilities.

  A batch of 32 cannot hold a share of .3; what it gives a table too little or too much is carried to the next batch. After
  every batch each table has had its exact share of all rows, rounded down or up. To give the rows that are left over to
  the largest remainders would not hold that: with many small tables some would fall behind by more than a row.
  """

  def __init__(self, probabilities: np.ndarray, batch_size: int):
    """Makes the schedule.

    Args:
      probabilities: float [tables], eta_i, summing to 1 but for rounding.
      batch_size: rows of a batch.
    """
    self._probabilities = np.asarray(probabilities, np.float64)
    self._batch_size = batch_size
    self._ready = np.ones(len(self._probabilities), bool)
    self._shares = self._probabilities / self._probabilities.sum()
    self._carry = np.zeros(len(self._probabilities))

  def set_ready(self, ready: np.ndarray) -> None:
    """Gives the shares of the tables that are not ready to the others, in proportion.

    Args:
      ready: bool [tables], at least one True.
    """
    if np.array_equal(ready, self._ready):
      return
    self._ready = np.array(ready, bool)
    masked = np.where(ready, self._probabilities, 0.0)
    self._shares = masked / masked.sum()
    # What is owed to a table under the old shares, less than one row, is dropped: it would not sum to zero any more.
    self._carry = np.zeros_like(self._carry)

  def next_block(self, batches: int) -> np.ndarray:
    """Quotas of the next batches, int [batches, tables]; every row sums to the batch size."""
    return np.stack([self._next_batch() for _ in range(batches)])

  def _next_batch(self) -> np.ndarray:
    owed = self._shares * self._batch_size + self._carry
    quotas = np.maximum(np.floor(owed + _ROUNDING), 0).astype(np.int64)
    # The rows left over go to tables that are owed a part of one, and there to those that will soonest be owed all of it.
    # Each row is a job with a release and a deadline, and where any schedule meets all of these, earliest deadline first
    # does; then the whole rows that are owed never exceed a batch, and no table is further off than a row.
    owed_part = owed - quotas > _ROUNDING
    until_whole = np.full(len(owed), np.inf)
    np.divide(quotas + 1 - owed, self._shares, out=until_whole, where=owed_part)
    missing = self._batch_size - int(quotas.sum())
    quotas[np.argsort(until_whole, kind="stable")[:missing]] += 1
    self._carry = owed - quotas
    return quotas


def block_order(quotas: np.ndarray) -> np.ndarray:
  """Where each batch's rows lie in a block that holds one table's rows after the other's.

  Args:
    quotas: int [batches, tables].

  Returns:
    int [batches, batch size]: positions in the block, each once; within a batch the tables lie in layout order.
  """
  batches, tables = quotas.shape
  table_of_row = np.repeat(np.tile(np.arange(tables), batches), quotas.ravel())
  order = np.argsort(table_of_row, kind="stable")
  positions = np.empty(len(order), np.int64)
  positions[order] = np.arange(len(order))
  return positions.reshape(batches, -1)

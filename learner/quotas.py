"""How many rows of a batch come from each table (SSET, Algorithm 1, line 18)."""

import numpy as np


class QuotaSchedule:
  """Whole numbers of rows for each table and batch whose long-run shares are exactly the tables' probabilities.

  A batch of 32 cannot hold a share of .3; what it gives a table too little or too much is carried to the next batch.
  """

  def __init__(self, probabilities: np.ndarray, batch_size: int):
    """Makes the schedule.

    Args:
      probabilities: float [tables], eta_i, summing to 1.
      batch_size: rows of a batch.
    """
    self._probabilities = np.asarray(probabilities, np.float64)
    self._batch_size = batch_size
    self._ready = np.ones(len(self._probabilities), bool)
    self._shares = self._probabilities
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
    # A share that is whole but for rounding must not lose a row to it.
    quotas = np.maximum(np.floor(owed + 1e-9), 0).astype(np.int64)
    missing = self._batch_size - quotas.sum()
    while missing:
      # The largest remainders first; of equal ones the first table. Tables that are owed less than nothing can make the
      # others' whole rows too many: then the smallest remainders give rows back.
      step = 1 if missing > 0 else -1
      can_change = (quotas + step >= 0) & (self._shares > 0)
      order = np.argsort(np.where(can_change, -step * (owed - quotas), np.inf), kind="stable")
      chosen = order[: min(abs(missing), int(can_change.sum()))]
      quotas[chosen] += step
      missing -= step * len(chosen)
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

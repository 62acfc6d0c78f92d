"""How many rows of a batch come from each table (SSET, Algorithm 1, line 18)."""

import math

import numpy as np
import numpy.typing as npt

from replay_server.contract.layout import batch_shares

# A share that is whole but for rounding must neither lose a row to it nor win one.
_ROUNDING = 1e-9


class QuotaSchedule:
  """Whole numbers of rows for each table and batch whose long-run shares are exactly the tables' probabilities.

  A batch of 32 cannot hold a share of .3; what it gives a table too little or too much is carried to the next batch. After
  every batch each table has had its exact share of all rows, rounded down or up. To give the rows that are left over to
  the largest remainders would not hold that: with many small tables some would fall behind by more than a row.
  """

  def __init__(self, probabilities: npt.NDArray[np.float64], batch_size: int, at_least_one: bool = False):
    """Makes the schedule.

    Args:
      probabilities: float [tables], eta_i, summing to 1 but for rounding.
      batch_size: rows of a batch.
      at_least_one: every ready table has a row in every batch; see `layout.batch_shares`.
    """
    self._probabilities = np.asarray(probabilities, np.float64)
    self._batch_size = batch_size
    self._at_least_one = at_least_one
    self._ready = np.zeros(len(self._probabilities), bool)
    self.set_ready(~self._ready)

  @property
  def shares(self) -> npt.NDArray[np.float64]:
    """Of each table in the long run, float64 [tables], summing to 1; 0 where it is not ready."""
    return self._long_run

  def set_ready(self, ready: npt.NDArray[np.bool_]) -> None:
    """Gives the shares of the tables that are not ready to the others, in proportion.

    Args:
      ready: bool [tables], at least one True.
    """
    if np.array_equal(ready, self._ready):
      return
    self._ready = np.array(ready, bool)
    masked = np.where(ready, self._probabilities, 0.0)
    self._long_run = batch_shares(masked, self._batch_size, self._at_least_one)
    # Rows that every batch has, whatever the rest.
    self._fixed: npt.NDArray[np.int64] = np.where(ready, int(self._at_least_one), 0)
    self._free_rows = self._batch_size - int(self._fixed.sum())
    # Of the rows that are left; where none are, any will do.
    beyond = np.maximum(self._long_run * self._batch_size - self._fixed, 0.0)
    self._shares = (beyond / self._free_rows if self._free_rows else self._long_run).tolist()
    # What is owed to a table under the old shares, less than one row, is dropped: it would not sum to zero any more.
    self._carry = [0.0] * len(self._shares)

  def next_block(self, batches: int) -> npt.NDArray[np.int64]:
    """Quotas of the next batches, int [batches, tables]; every row sums to the batch size."""
    return self._fixed + np.array([self._next_batch() for _ in range(batches)], np.int64)

  def _next_batch(self) -> list[int]:
    # Plain numbers: for a handful of tables they are several times faster than arrays.
    owed = [share * self._free_rows + carry for share, carry in zip(self._shares, self._carry, strict=True)]
    quotas = [max(math.floor(rows + _ROUNDING), 0) for rows in owed]
    # The rows left over go to tables that are owed a part of one, and there to those that will soonest be owed all of it.
    # Each row is a job with a release and a deadline, and where any schedule meets all of these, earliest deadline first
    # does; then the whole rows that are owed never exceed a batch, and no table is further off than a row.
    until_whole = [
      (quota + 1 - rows) / share if rows - quota > _ROUNDING else math.inf
      for quota, rows, share in zip(quotas, owed, self._shares, strict=True)
    ]
    missing = self._free_rows - sum(quotas)
    for table in sorted(range(len(owed)), key=until_whole.__getitem__)[:missing]:
      quotas[table] += 1
    self._carry = [rows - quota for rows, quota in zip(owed, quotas, strict=True)]
    return quotas


def tables_of_rows(quotas: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
  """The table of each row of a block, whose batches hold the tables' rows in layout order.

  Args:
    quotas: int [batches, tables]; every row sums to the batch size.

  Returns:
    int [batches, batch size].
  """
  batches, tables = quotas.shape
  return np.repeat(np.tile(np.arange(tables), batches), quotas.ravel()).reshape(batches, -1)

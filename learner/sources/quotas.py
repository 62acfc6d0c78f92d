"""How many rows of a batch come from each table (SSET, Algorithm 1, line 18)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from replay_server.contract.layout import batch_shares

# Rounding errors of this size must not cost a table a row, or win it one.
_ROUNDING = 1e-9


class QuotaSchedule:
  """Whole numbers of rows for each table and batch, which meet the tables' shares exactly in the long run.

  A batch of 32 cannot hold a share of .3 exactly; the difference is carried over to the next batch. After every batch each
  table has had its exact share of all rows, rounded down or up. Giving the remaining rows of a batch to the largest remainders
  would not guarantee that: with many small tables, some would fall behind by more than a row.
  """

  def __init__(self, shares: npt.NDArray[np.float64], batch_size: int, at_least_one: bool = False):
    """Starts with all tables ready.

    Args:
      shares: float64 [tables], eta_i, summing to 1 up to rounding.
      batch_size: rows in a batch.
      at_least_one: whether every ready table has a row in every batch; see `layout.batch_shares`.
    """
    self._all_shares = np.asarray(shares, np.float64)
    self._batch_size = batch_size
    self._at_least_one = at_least_one
    self._ready = np.zeros(len(self._all_shares), bool)
    self.set_ready(~self._ready)

  @property
  def shares(self) -> npt.NDArray[np.float64]:
    """Each table's long-run share of a batch, float64 [tables], summing to 1; 0 where it is not ready."""
    return self._long_run

  def set_ready(self, ready: npt.NDArray[np.bool_]) -> None:
    """Divides the shares of tables that are not ready among the others, in proportion.

    Args:
      ready: bool [tables], at least one True.
    """
    if not np.array_equal(ready, self._ready):
      self._ready = np.array(ready, bool)
      self._divide()

  def set_shares(self, shares: npt.NDArray[np.float64]) -> None:
    """Gives the tables other shares, float64 [tables], summing to 1 up to rounding."""
    self._all_shares = np.array(shares, np.float64)
    self._divide()

  def _divide(self) -> None:
    ready = self._ready
    masked = np.where(ready, self._all_shares, 0.0)
    self._long_run = batch_shares(masked, self._batch_size, self._at_least_one)
    # Rows that every batch has from each table.
    self._fixed: npt.NDArray[np.int64] = np.where(ready, int(self._at_least_one), 0)
    self._free_rows = self._batch_size - int(self._fixed.sum())
    # Shares of the remaining rows; where there are none, any shares will do.
    beyond = np.maximum(self._long_run * self._batch_size - self._fixed, 0.0)
    self._free_shares = (beyond / self._free_rows if self._free_rows else self._long_run).tolist()
    # What the tables are owed under the old shares, each less than a row, is dropped: it would no longer sum to zero.
    self._carry = [0.0] * len(self._free_shares)

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """Which tables take part, and what they are owed."""
    return {"ready": self._ready.copy(), "carry": np.array(self._carry)}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned; it is dropped when other tables are ready."""
    self.set_ready(np.array(state["ready"], bool))
    self._carry = [float(rows) for rows in state["carry"]]

  def next_block(self, batches: int) -> npt.NDArray[np.int64]:
    """Quotas of the next batches, int64 [batches, tables]; every row sums to the batch size."""
    return self._fixed + np.array([self._next_batch() for _ in range(batches)], np.int64)

  def _next_batch(self) -> list[int]:
    # Python numbers: for a handful of tables they are several times faster than arrays.
    owed = [share * self._free_rows + carry for share, carry in zip(self._free_shares, self._carry, strict=True)]
    quotas = [max(math.floor(rows + _ROUNDING), 0) for rows in owed]
    # The remaining rows go to tables that are owed part of a row, first to those that will soonest be owed all of it. This is
    # earliest deadline first: each row is a job with a release time and a deadline, and if any schedule meets all deadlines,
    # this one does. So the whole rows owed never exceed a batch, and no table is off by more than a row.
    until_whole = [
      (quota + 1 - rows) / share if rows - quota > _ROUNDING else math.inf
      for quota, rows, share in zip(quotas, owed, self._free_shares, strict=True)
    ]
    missing = self._free_rows - sum(quotas)
    for table in sorted(range(len(owed)), key=until_whole.__getitem__)[:missing]:
      quotas[table] += 1
    self._carry = [rows - quota for rows, quota in zip(owed, quotas, strict=True)]
    return quotas


def tables_of_rows(quotas: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
  """The table of each row of a block whose batches are sorted by table, in layout order.

  Args:
    quotas: int64 [batches, tables]; every row sums to the batch size.

  Returns:
    int64 [batches, batch size].
  """
  batches, tables = quotas.shape
  return np.repeat(np.tile(np.arange(tables), batches), quotas.ravel()).reshape(batches, -1)

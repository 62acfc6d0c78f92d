"""Shares of event tables that follow what is still learned from each (SSET, Section 8, leaves such rules open)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# How much of a table's mean an update renews.
RATE = 0.01
# Gradient steps between two changes of the shares.
PERIOD_UPDATES = 100
# The part of the event tables' share that keeps to the configured ones, so that every table is drawn from and measured.
KEPT = 0.2


class SharesByError:
  """Divides the event tables' part of a batch in proportion to the mean |TD error| of the rows drawn from each lately.

  The default table keeps its share eta_0, and the others together the rest, eta. With the configured shares eta_i and the running
  means m_i, table i gets (1 - KEPT) eta m_i / sum_j m_j + KEPT eta_i. As long as one of them has no mean, all keep eta_i.

  Attributes:
    current: float64 [tables], the shares, which sum to 1 up to rounding; the default table's comes first.
    means: float64 [tables], the running means; NaN for a table without.
  """

  def __init__(self, configured: Array):
    """Starts with the configured shares, float64 [tables], of a default table and at least one other."""
    self._configured = np.array(configured, np.float64)
    self.current = self._configured.copy()
    self.means = np.full(len(self.current), np.nan)
    self._changed = 0

  def note(self, tables: npt.NDArray[np.int64], td_errors: npt.NDArray[np.float32]) -> None:
    """Takes in the TD errors of a block, those that are finite.

    Args:
      tables: int64 [K, batch], the index of each row's table.
      td_errors: float32 [K, batch].
    """
    errors = np.abs(td_errors.astype(np.float64))
    finite = np.isfinite(errors)
    count = len(self.means)
    rows = np.bincount(tables[finite], minlength=count)
    sums = np.bincount(tables[finite], errors[finite], count)
    drawn = rows > 0
    found = sums[drawn] / rows[drawn]
    before = np.where(np.isnan(self.means[drawn]), found, self.means[drawn])
    self.means[drawn] = before + (1 - (1 - RATE) ** len(tables)) * (found - before)

  def change(self, updates: int) -> bool:
    """Sets `current` anew if `PERIOD_UPDATES` have passed since the last time; whether they have.

    Args:
      updates: gradient steps so far.
    """
    if updates - self._changed < PERIOD_UPDATES:
      return False
    self._changed = updates
    configured, means = self._configured[1:], self.means[1:]
    total = means.sum()
    if np.isfinite(total) and total > 0:
      self.current[1:] = (1 - KEPT) * configured.sum() * means / total + KEPT * configured
    return True

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """The shares, the means, and when the shares were changed."""
    return {"current": self.current.copy(), "means": self.means.copy(), "changed": np.array(self._changed)}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned."""
    self.current = np.array(state["current"], np.float64)
    self.means = np.array(state["means"], np.float64)
    self._changed = int(state["changed"])

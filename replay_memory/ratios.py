"""How far the policy has moved from the behaviour of each stored step (ReF-ER; Novati & Koumoutsakos, 2019)."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replay_memory import sweeps
from replay_memory.memory import ReplayMemory

Floats = npt.NDArray[np.float32]

RATIO_COLUMN, DIVERGENCE_COLUMN = "log_ratio", "divergence"
# Bins of a histogram of log rho; the first and the last one hold all beyond.
_BIN, _BINS = 0.1, 120


class _Counted(NamedTuple):
  """A count of far-policy rows. `Ratios.set` keeps it up to date, so that all rows are seldom counted.

  Attributes:
    contents: of the default table; see `Ratios._contents`.
    limit: log c_max.
    outside: the count.
  """

  contents: tuple[int, int]
  limit: float
  outside: sweeps.Outside


class Ratios:
  """Keeps log rho_t = log pi(a_t|s_t) - log mu_t(a_t|s_t) and KL(mu_t || pi) of each row, as they were computed last.

  Both are 0 for a row that no update has used yet: as far as is known, the policy is still its behaviour. All sums are over the
  default table, which is the paper's replay memory.

  Attributes:
    log_ratio: float32 [slots].
    divergence: float32 [slots].
  """

  def __init__(self, memory: ReplayMemory):
    """Adds the columns to a new memory."""
    self._memory = memory
    self.log_ratio: Floats = memory.add_column(RATIO_COLUMN, np.float32, 0.0)
    self.divergence: Floats = memory.add_column(DIVERGENCE_COLUMN, np.float32, 0.0)
    # Views, as looking a field up takes as long as the rest.
    self._inserts: npt.NDArray[np.int64] = memory.arrays.tables.inserts
    self._filled: npt.NDArray[np.int64] = memory.arrays.tables.filled
    self._position = memory.arrays.position[:, 0]
    self._counted: _Counted | None = None
    memory.follow_with(self)

  def set(self, slots: npt.NDArray[np.int64], log_ratio: Floats, divergence: Floats) -> None:
    """Sets both of rows; the later one counts where a row is named twice.

    Args:
      slots: int64 [n], of stored rows.
      log_ratio: float32 [n].
      divergence: float32 [n].
    """
    self.divergence[slots] = divergence
    counted = self._counted
    if counted is None or counted.contents != self._contents():
      self.log_ratio[slots] = log_ratio
      self._counted = None
      return
    outside = sweeps.set_log_ratios(self.log_ratio, slots, log_ratio, self._position, counted.outside, counted.limit)
    self._counted = counted._replace(outside=outside)

  def _contents(self) -> tuple[int, int]:
    """Changes whenever another row is in the default table: rows put into it so far, and rows that it has."""
    return int(self._inserts[0]), int(self._filled[0])

  def far_share(self, limit: float) -> float:
    """The share of rows that are far-policy, n_far / N: those with rho >= c_max or <= 1 / c_max (Section 3); 0 without rows.

    Args:
      limit: c_max, above 1.
    """
    log_limit, contents, counted = math.log(limit), self._contents(), self._counted
    if counted is None or counted.contents != contents or not counted.outside.nearest < log_limit <= counted.limit:
      outside = sweeps.count_outside(self._memory.places(0), self.log_ratio, log_limit)
      self._counted = counted = _Counted(contents, log_limit, outside)
    return counted.outside.rows / max(1, contents[1])

  def histogram(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """How many rows have which log rho: (counts [bins], edges of the bins [bins + 1]).

    Bins are .1 wide, from -6 to 6. What lies beyond is counted in the first or last one.
    """
    edges = _BIN * np.arange(-_BINS // 2, _BINS // 2 + 1)
    inside = np.clip(self.log_ratio[self._memory.places(0)], edges[0], edges[-1])
    return np.histogram(inside, edges)[0].astype(np.int64), edges

  def mean_divergence(self) -> float:
    """The mean KL(mu || pi), in nats; 0 without rows."""
    ring = self._memory.places(0)
    return sweeps.add_up(ring, self.divergence, False) / max(1, len(ring))

  def added(self, slots: npt.NDArray[np.int64]) -> None:
    """Does nothing: what enters the default table changes `_contents`."""
    del slots

  def restored(self) -> None:
    """What was counted is no longer so; see `Rule.restored`."""
    self._counted = None

"""How far the policy has moved from the behaviour of each stored step (ReF-ER; Novati & Koumoutsakos, 2019)."""

import math

import numpy as np
import numpy.typing as npt

from replay_memory import sweeps
from replay_memory.memory import ReplayMemory

Floats = npt.NDArray[np.float32]

RATIO_COLUMN, DIVERGENCE_COLUMN = "log_ratio", "divergence"
# Bins of a histogram of log rho; the first and the last one hold all beyond.
_BIN, _BINS = 0.1, 120


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

  def set(self, slots: npt.NDArray[np.int64], log_ratio: Floats, divergence: Floats) -> None:
    """Sets both of rows; the later one counts where a row is named twice.

    Args:
      slots: int64 [n], of stored rows.
      log_ratio: float32 [n].
      divergence: float32 [n].
    """
    self.log_ratio[slots] = log_ratio
    self.divergence[slots] = divergence

  def far_share(self, limit: float) -> float:
    """The share of rows that are far-policy, n_far / N: those with rho >= c_max or <= 1 / c_max (Section 3); 0 without rows.

    Args:
      limit: c_max, above 1.
    """
    ring = self._memory.places(0)
    return sweeps.count_outside(ring, self.log_ratio, math.log(limit)) / max(1, len(ring))

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

"""Importance weights of tables that draw by priority (PER, ReaPER)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import ReplayConfig
from learner.sources.block import Block


def importance_weights(
  probabilities: npt.NDArray[np.float64],
  table_sizes: npt.NDArray[np.int64],
  prioritized: npt.NDArray[np.bool_],
  exponent: float,
  least_ratio: float | None = None,
) -> npt.NDArray[np.float32]:
  """Weights that correct the bias of draws by priority: (N_i P_i)^-beta, divided by the largest.

  Section 3.4 of Schaul et al., 2016, for each table separately. With beta = 1 the correction is complete.

  Args:
    probabilities: float64 [K, batch], P_i of each row within its table.
    table_sizes: int64 [K, batch], N_i.
    prioritized: bool [K, batch], whether the row's table draws by priority; where not, the weight before the division is 1.
    exponent: beta.
    least_ratio: the least N_i P_i of all rows that could be drawn, which gives the largest weight; None for the largest of each
      batch.

  Returns:
    float32 [K, batch], in (0, 1].
  """
  if not prioritized.any():
    return np.ones(probabilities.shape, np.float32)
  weights = np.where(prioritized, probabilities * table_sizes, 1.0) ** -exponent
  largest = weights.max(axis=1, keepdims=True) if least_ratio is None else least_ratio**-exponent
  scaled: npt.NDArray[np.float64] = weights / largest
  return scaled.astype(np.float32)


class ImportanceWeights:
  """Importance weights, with the run's schedule of beta."""

  def __init__(self, replay: ReplayConfig):
    """Takes the tables' selectors and the schedule of beta."""
    self._schedule = replay.priority
    self._prioritized = np.array([table.draws_by_priority for table in replay.all_tables])

  def weights(self, block: Block, updates: int) -> npt.NDArray[np.float32]:
    """Weights of a block's rows, float32 [K, batch], with beta as of `updates` gradient steps."""
    exponent = self._schedule.importance_exponent_at(updates)
    least = None if block.least_ratios is None else float(block.least_ratios[block.shares > 0].min())
    return importance_weights(block.probabilities, block.table_sizes, self._prioritized[block.tables], exponent, least)

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """Empty: the weights depend on the block and the number of updates alone."""
    return {}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores nothing."""
    del state

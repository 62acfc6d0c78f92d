"""How many rows a learner with its own memory reads before each of its blocks."""

import dataclasses
import math

from configs import RunConfig

# Rounding errors of this size must not cost a row.
_ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class RowPace:
  """`replay.environment_steps_per_update` rows for every update, after those of the warm-up.

  Attributes:
    rows_per_update: rows for each update; None for as many as there are.
    warm_up_rows: rows before those of the first block.
    updates_per_block: K.
    rows_per_round: rows come in rounds of so many.
  """

  rows_per_update: float | None
  warm_up_rows: int
  updates_per_block: int
  rows_per_round: int = 1

  @classmethod
  def of(cls, config: RunConfig) -> "RowPace":
    """The pace of a run."""
    replay = config.replay
    return cls(
      replay.environment_steps_per_update,
      replay.default.min_size,
      config.learner.updates_per_block,
      replay.steps_per_round,
    )

  def due(self, updates: int) -> int | None:
    """Rows that must have been read before the block that follows `updates` updates; None if there is no ratio.

    What is left of a row is carried over to the next block. A round is read as a whole, before the first block that needs a row
    of it.
    """
    if self.rows_per_update is None:
      return None
    needed = math.floor(self.rows_per_update * (updates + self.updates_per_block) + _ROUNDING)
    return self.warm_up_rows + math.ceil(needed / self.rows_per_round) * self.rows_per_round

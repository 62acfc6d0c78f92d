"""The contents of the tables in the learner's own memory, for a bias correction."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.sources.block import Block
from replay_memory.memory import ReplayMemory


class MemoryContents:
  """As `TableContents`: what the memory holds at the moment, so there is nothing to read or to keep."""

  def __init__(self, memory: ReplayMemory):
    """Looks into `memory`."""
    self._memory = memory

  def refresh(self) -> None:
    """Does nothing."""

  def tables_of(self, block: Block) -> npt.NDArray[np.int64]:
    """Bit masks of the tables that hold each row, int64 [K, batch]; 0 for a row that none holds any more."""
    holds = self._memory.holds(block.handles)
    masks: npt.NDArray[np.int64] = holds @ (1 << np.arange(holds.shape[-1]))
    return masks

  def sizes(self, block: Block) -> npt.NDArray[np.int64]:
    """Rows in each table, int64 [tables]."""
    del block
    return self._memory.sizes

  @property
  def event_fraction(self) -> float:
    """Fraction of the default table's rows that an event table also holds."""
    return self._memory.events_in_default / max(1, int(self._memory.sizes[0]))

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """Empty."""
    return {}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores nothing."""
    del state

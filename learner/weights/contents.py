"""What a bias correction must know of the replay tables."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from learner.sources.block import Block


class TableContents(Protocol):
  """Which tables hold which rows."""

  def refresh(self) -> None:
    """Takes in what has happened since the last call."""
    ...

  def tables_of(self, block: Block) -> npt.NDArray[np.int64]:
    """Bit masks of the tables that hold each row, int64 [K, batch]; bit i stands for table i."""
    ...

  def sizes(self, block: Block) -> npt.NDArray[np.int64]:
    """Rows in each table, int64 [tables]."""
    ...

  @property
  def event_fraction(self) -> float:
    """Fraction of the default table's rows that an event table also holds."""
    ...

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """As `Source.state`."""
    ...

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """As `Source.restore`.

    Raises:
      ServerLost: the server does not answer.
    """
    ...

"""What follows a memory's rows: rules that keep values for each row or episode."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Rule(Protocol):
  """Is told what happens to a memory's rows; see `ReplayMemory.follow_with`."""

  def added(self, slots: npt.NDArray[np.int64]) -> None:
    """Rows were added.

    Args:
      slots: int64 [n], of those that are stored, in the order in which they were received.
    """
    ...

  def restored(self) -> None:
    """The memory has its rows and columns from a checkpoint."""
    ...

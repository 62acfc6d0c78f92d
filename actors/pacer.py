"""Reports a worker's transitions to the server, which holds the worker back while the learner is behind."""

import numpy as np

from actors.row_writer import RowWriter
from replay_server.contract.layout import PACE


class Pacer:
  """Writes an item to the table `pace` for every so many transitions of a worker.

  The items have a writer of their own. So only the worker waits for the learner, and never a row that it has collected.
  """

  def __init__(self, writer: RowWriter, steps_per_item: int):
    """Reports nothing yet.

    Args:
      writer: for these items alone.
      steps_per_item: transitions for each item; see `PaceShape`.
    """
    self._writer = writer
    self._steps = np.array(steps_per_item, np.int64)
    self._reported = 0

  def report(self, transitions: int) -> None:
    """Reports what is due; waits while the server has not taken the item before, as then the learner is behind.

    Args:
      transitions: that the worker has written to the default table since it began.

    Raises:
      Stopped: asked to stop meanwhile.
    """
    while transitions - self._reported >= self._steps:
      self._writer.flush()
      self._writer.create_item(PACE, self._writer.append(self._steps))
      self._writer.send()
      self._reported += int(self._steps)

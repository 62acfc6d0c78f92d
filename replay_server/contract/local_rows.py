"""How an inline run passes rows from its worker to its learner's memory, without a server in between."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from replay_server.contract.codec import Packed


class LocalRows:
  """A queue of packed rows; for one thread.

  Attributes:
    table: through which these rows pass in other runs, and under whose name the server counts them.
    inserted: rows ever put into it.
  """

  def __init__(self, table: str, width: int):
    """An empty queue in place of `table`, of rows of `width` words."""
    self.table = table
    self._width = width
    self._rows: collections.deque[Packed] = collections.deque()
    self.inserted = 0

  @property
  def waiting(self) -> int:
    """Rows that were not taken yet."""
    return len(self._rows)

  def put(self, row: Packed) -> None:
    """Adds a row, float32 [width]; the caller must not change it any more."""
    self._rows.append(row)
    self.inserted += 1

  def take(self, most: int) -> Packed:
    """Takes the oldest rows out, at most `most`; float32 [n, width]."""
    return self._stacked([self._rows.popleft() for _ in range(min(most, len(self._rows)))])

  def copy(self) -> Packed:
    """The rows that were not taken yet, which stay; float32 [n, width]."""
    return self._stacked(self._rows)

  def _stacked(self, rows: Sequence[Packed]) -> Packed:
    return np.stack(rows) if rows else np.empty((0, self._width), np.float32)

  def restore(self, inserted: int, rows: Packed) -> None:
    """Replaces everything: `rows`, float32 [n, width], are then the last of `inserted` ones and were not taken yet."""
    self._rows = collections.deque(rows)
    self.inserted = inserted

  def describe(self, info: Any) -> None:
    """Puts its counts into Reverb's `TableInfo` message of the table whose rows pass through it."""
    info.current_size = self.waiting
    info.rate_limiter_info.insert_stats.completed = self.inserted
    info.rate_limiter_info.sample_stats.completed = self.inserted - self.waiting

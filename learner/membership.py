"""Which tables hold a step: the learner's picture of the server's tables, made from what the actors say they sent.

A drawn row shows only the table it was drawn from: rows are written before later events decide where they go. So actors say,
in the table `histories`, which steps of which episode they put into which table, and the learner keeps the first-in-first-out
order of every table for itself. Where several actors write at once the server may have interleaved them otherwise, so that a step
near the end of a table can be wrong; and what was sent a moment ago may not be known yet.
"""

import collections
import pathlib
from collections.abc import Sequence

import numpy as np

_STEP_BITS = 32


class Membership:
  """Table contents as sets of steps, evicted first in first out.

  Attributes:
    events_in_default: steps in the default table that an event table holds too.
  """

  def __init__(self, capacities: Sequence[int]):
    """Makes it for empty tables.

    Args:
      capacities: of the tables, in layout order, the default table's first.
    """
    self._capacities = capacities
    self._order: list[collections.deque[int]] = [collections.deque() for _ in capacities]
    self._tables: dict[int, int] = {}
    self.events_in_default = 0

  @property
  def sizes(self) -> np.ndarray:
    """Steps in each table, int64 [tables]."""
    return np.array([len(order) for order in self._order])

  def add(self, table: int, episode: int, first: int, last: int) -> None:
    """Notes that steps `first` to `last`, both included, went to a table; evicts what it can no longer hold."""
    order, bit = self._order[table], 1 << table
    for step in range(first, last + 1):
      key = episode << _STEP_BITS | step
      order.append(key)
      self._change(key, self._tables.get(key, 0) | bit)
    while len(order) > self._capacities[table]:
      key = order.popleft()
      self._change(key, self._tables[key] & ~bit)

  def _change(self, key: int, tables: int) -> None:
    self.events_in_default += _is_shared(tables) - _is_shared(self._tables.get(key, 0))
    if tables:
      self._tables[key] = tables
    else:
      del self._tables[key]

  def tables_of(self, episodes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Bit masks of the tables that hold some steps.

    Args:
      episodes: int64 [...].
      steps: int32 [...].

    Returns:
      int64 [...]; bit i is table i; 0 for a step that is not known.
    """
    pairs = zip(episodes.ravel().tolist(), steps.ravel().tolist(), strict=True)
    found = [self._tables.get(episode << _STEP_BITS | step, 0) for episode, step in pairs]
    return np.array(found, np.int64).reshape(episodes.shape)

  def save(self, path: pathlib.Path) -> None:
    """Writes it to an .npz file; readers see the old or the new one whole."""
    partial = path.with_suffix(".partial.npz")
    mask = (1 << _STEP_BITS) - 1
    tables = {
      f"table_{index}": np.array([(key >> _STEP_BITS, key & mask) for key in order], np.int64).reshape(-1, 2)
      for index, order in enumerate(self._order)
    }
    np.savez(partial, **tables)
    partial.replace(path)

  def load(self, path: pathlib.Path) -> None:
    """Takes what `save` wrote, into tables that are empty yet."""
    with np.load(path) as tables:
      for index in range(len(self._order)):
        for episode, step in tables[f"table_{index}"].tolist():
          self.add(index, episode, step, step)


def _is_shared(tables: int) -> bool:
  """Whether the default table and an event table are both in a mask."""
  return bool(tables & 1 and tables >> 1)

"""Which tables hold a step: the learner's own account of the server's tables, from the workers' reports.

A drawn row only shows the table it was drawn from: it was written before later events put its step into further tables. So
workers report, in the table `histories`, which steps of which episode they put into which table, and the learner keeps the
first-in-first-out order of every table. Where several workers write at once, the server may interleave their steps in another
order, so that a step near the end of a table can be wrong; and the latest reports may not have arrived yet.
"""

import collections
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import ReplayConfig, ServerLost
from learner.sources.block import Block
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection

_MOST_RECORDS = 1_000
_STEP_BITS = 32


class Membership:
  """Table contents as sets of steps, evicted first in, first out.

  Attributes:
    events_in_default: number of steps in the default table that an event table also holds.
  """

  def __init__(self, capacities: Sequence[int]):
    """Starts with empty tables.

    Args:
      capacities: of the tables, in layout order (the default table's first).
    """
    self._capacities = capacities
    self._order: list[collections.deque[int]] = [collections.deque() for _ in capacities]
    self._tables: dict[int, int] = {}
    self._added = [0] * len(capacities)
    self.events_in_default = 0

  @property
  def sizes(self) -> npt.NDArray[np.int64]:
    """Steps in each table, int64 [tables]."""
    return np.array([len(order) for order in self._order])

  def add(self, table: int, episode: int, first: int, last: int) -> None:
    """Records that steps `first` to `last`, both included, were put into a table; evicts the oldest beyond its capacity.

    Steps already in the table keep their place: a server that was restored from a checkpoint repeats reports.
    """
    order, bit = self._order[table], 1 << table
    for step in range(first, last + 1):
      key = episode << _STEP_BITS | step
      tables = self._tables.get(key, 0)
      if not tables & bit:
        order.append(key)
        self._added[table] += 1
        self._change(key, tables | bit)
    while len(order) > self._capacities[table]:
      self._remove(table, order.popleft())

  def _remove(self, table: int, key: int) -> None:
    self._change(key, self._tables[key] & ~(1 << table))

  def _change(self, key: int, tables: int) -> None:
    self.events_in_default += _is_shared(tables) - _is_shared(self._tables.get(key, 0))
    if tables:
      self._tables[key] = tables
    else:
      del self._tables[key]

  def tables_of(self, episodes: npt.NDArray[np.int64], steps: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Bit masks of the tables that hold each step.

    Args:
      episodes: int64 [...].
      steps: int32 [...].

    Returns:
      int64 [...]; bit i stands for table i; 0 for an unknown step.
    """
    pairs = zip(episodes.ravel().tolist(), steps.ravel().tolist(), strict=True)
    found = [self._tables.get(episode << _STEP_BITS | step, 0) for episode, step in pairs]
    return np.array(found, np.int64).reshape(episodes.shape)

  def state(self) -> dict[str, npt.NDArray[np.int64]]:
    """What `restore` takes: `added`, int64 [tables], and `table_<i>`, int64 [steps, 2], the table's (episode, step) in order."""
    mask = (1 << _STEP_BITS) - 1
    tables = {
      f"table_{index}": np.array([(key >> _STEP_BITS, key & mask) for key in order], np.int64).reshape(-1, 2)
      for index, order in enumerate(self._order)
    }
    return {"added": np.array(self._added), **tables}

  def restore(self, state: Mapping[str, npt.NDArray[Any]], inserted: Sequence[int]) -> None:
    """Restores what `state` returned; the tables must still be empty.

    Args:
      state: of an earlier membership.
      inserted: number of steps ever inserted into each table of the server. Where it is below the number recorded, the server
        was restored from an older checkpoint and has lost the newest steps, which are left out.
    """
    for table in range(len(self._order)):
      for episode, step in state[f"table_{table}"].tolist():
        self.add(table, episode, step, step)
      self._added[table] = int(state["added"][table])
      while self._added[table] > inserted[table] and self._order[table]:
        self._remove(table, self._order[table].pop())
        self._added[table] -= 1


class ReportedContents:
  """The contents of the server's tables, by the workers' reports."""

  def __init__(self, connection: Connection, replay: ReplayConfig, codec: RowCodec):
    """Reads nothing yet.

    Args:
      connection: to the server.
      replay: of the run.
      codec: of its rows.
    """
    self._connection = connection
    self._codec = codec
    self._table_names = [table.name for table in replay.all_tables]
    self._membership = Membership([replay.capacity_of(table) for table in replay.all_tables])

  def refresh(self) -> None:
    """Reads the reports that have arrived."""
    # If the server does not answer, the next block asks again; the process's watchdog decides when the server is lost.
    with contextlib.suppress(ServerLost):
      while records := self._connection.read_many(layout.HISTORIES, _MOST_RECORDS, "reading histories"):
        for (record,) in records:
          self._membership.add(*record.tolist())
        if len(records) < _MOST_RECORDS:
          return

  def tables_of(self, block: Block) -> npt.NDArray[np.int64]:
    """Bit masks of the tables that hold each row, int64 [K, batch]; 0 for a row that was not reported yet."""
    fields = self._codec.unpack(block.rows)
    return self._membership.tables_of(fields["episode"], fields["step"])

  def sizes(self, block: Block) -> npt.NDArray[np.int64]:
    """Rows in each table, int64 [tables], by the reports or by the block's draws, whichever is more."""
    sizes = self._membership.sizes
    np.maximum.at(sizes, block.tables, block.table_sizes)
    return sizes

  @property
  def event_fraction(self) -> float:
    """Fraction of the default table's rows that an event table also holds."""
    return self._membership.events_in_default / max(1, int(self._membership.sizes[0]))

  def state(self) -> Mapping[str, npt.NDArray[Any]]:
    """The reported contents."""
    return self._membership.state()

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned, except steps that the server has lost since.

    Raises:
      ServerLost: the server does not answer.
    """
    tables = self._connection.info()
    inserted = [tables[name].rate_limiter_info.insert_stats.completed for name in self._table_names]
    self._membership.restore(state, inserted)


def _is_shared(tables: int) -> bool:
  """Whether a mask has both the default table and an event table."""
  return bool(tables & 1 and tables >> 1)

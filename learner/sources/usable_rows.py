"""Keeps rows that cannot be learned from away from the updates, counts them, and ends a run that has too many."""

import collections
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from learner.sources.block import Block
from learner.sources.row_check import RowCheck
from replay_server.contract.connection import Connection
from replay_server.contract.layout import EPISODE_BITS
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import UNUSABLE_ROWS

# A run ends when more than this share of the rows drawn lately cannot be used, ...
MOST_UNUSABLE = 0.01
# ... which are at least this many of the last rows drawn, or all if there are fewer, ...
WINDOW_ROWS = 20_000
# ... and if they are this many different rows: a small table gives the same row again and again.
LEAST_ROWS = 20
# Writers whose counts are reported. A damaged row may name any.
_MOST_WRITERS = 10


@dataclasses.dataclass(frozen=True)
class _Found:
  """What was found among the rows of one block or one read.

  Attributes:
    rows_read: rows of it.
    unusable: rows that cannot be used.
    rows: (episode, step) of each of them.
  """

  rows_read: int
  unusable: int
  rows: frozenset[tuple[int, int]]


class UnusableRows:
  """Finds and counts rows that cannot be learned from, and ends a run that has too many of them."""

  def __init__(self, manifest: Manifest):
    """Counts nothing yet; `manifest` is the run's."""
    self._codec = manifest.codec
    self._check = RowCheck(manifest.codec, manifest.spec, manifest.config.learner.stores_behaviour)
    self._window: collections.deque[_Found] = collections.deque()
    self._rows_read = self._unusable = 0  # Sums over the window.
    self._by_writer: collections.Counter[int] = collections.Counter()

  def metrics(self) -> Mapping[str, float]:
    """How many unusable rows were found, in all and for the writers of most of them; empty if there were none."""
    if not self._by_writer:
      return {}
    counts = {f"{UNUSABLE_ROWS}/{writer}": float(rows) for writer, rows in self._by_writer.most_common(_MOST_WRITERS)}
    return {UNUSABLE_ROWS: float(self._by_writer.total()), **counts}

  def find(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which rows cannot be learned from, bool [...] for float32 [..., width].

    Raises:
      UserError: too many of the latest rows cannot be used.
    """
    unusable = self._check.unusable(rows)
    if unusable.any():
      self._count(rows, unusable)
    else:
      self._note(_Found(unusable.size, 0, frozenset()))
    return unusable

  def _count(self, all_rows: npt.NDArray[np.float32], unusable: npt.NDArray[np.bool_]) -> None:
    rows = all_rows[unusable]
    fields = self._codec.unpack(rows)
    writers = fields["episode"] >> EPISODE_BITS
    for row, writer in zip(rows, writers.tolist(), strict=True):
      if not self._by_writer[writer]:
        print(f"Writer {writer} wrote a row that cannot be learned from: {self._check.reason(row)}.", flush=True)
      self._by_writer[writer] += 1
    named = frozenset(zip(fields["episode"].tolist(), fields["step"].tolist(), strict=True))
    self._note(_Found(unusable.size, len(rows), named))
    read, bad = self._rows_read, self._unusable
    different = len(frozenset().union(*(found.rows for found in self._window)))
    if bad > MOST_UNUSABLE * read and different >= LEAST_ROWS:
      writer, count = self._by_writer.most_common(1)[0]
      raise UserError(
        f"Of the last {read:,} rows drawn, {bad:,} cannot be learned from; for example, {self._check.reason(rows[0])}. Writer "
        f"{writer} wrote {count:,} of {self._by_writer.total():,} (status.json names its process): stop the client that sends "
        "them, and resume with a checkpoint from before it joined."
      )

  def _note(self, found: _Found) -> None:
    self._window.append(found)
    self._rows_read += found.rows_read
    self._unusable += found.unusable
    while self._rows_read - self._window[0].rows_read >= WINDOW_ROWS:
      oldest = self._window.popleft()
      self._rows_read -= oldest.rows_read
      self._unusable -= oldest.unusable


class UsableRows:
  """Replaces the unusable rows of blocks.

  Each gets the place of a usable row of the same table in the same block, drawn at random: what the table would have given if it
  held no unusable row. If the block has no usable row of a table, the other rows of the block fill in, as for a table that is not
  ready. The shape of a block stays, and no loss, policy or average ever sees an unusable row.
  """

  def __init__(self, connection: Connection, manifest: Manifest):
    """Counts nothing yet.

    Args:
      connection: to the server.
      manifest: of the run.
    """
    tables = manifest.config.replay.all_tables
    self._connection = connection
    self._rows = UnusableRows(manifest)
    self._prioritized = {index: table.name for index, table in enumerate(tables) if table.selector == "prioritized"}
    self._generator = np.random.default_rng(0)  # Two usable rows of a table are as good as each other.

  def metrics(self) -> Mapping[str, float]:
    """How many unusable rows were drawn, in all and for the writers of most of them; empty if there were none."""
    return self._rows.metrics()

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """The state of its random numbers."""
    return {"generator": np.array(json.dumps(self._generator.bit_generator.state))}

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned."""
    self._generator.bit_generator.state = json.loads(str(state["generator"]))

  def replace(self, block: Block) -> Block | None:
    """The block with usable rows alone; None if it has none.

    Raises:
      UserError: too many of the rows drawn lately cannot be used.
      ServerLost: the server does not answer.
    """
    unusable = self._rows.find(block.rows)
    if not unusable.any():
      return block
    self._never_draw_again(block, unusable)
    return None if unusable.all() else self._filled(block, unusable)

  def _never_draw_again(self, block: Block, unusable: npt.NDArray[np.bool_]) -> None:
    """Takes unusable rows of prioritised tables out of their draws: without a TD error, they would keep a new item's priority."""
    for index, name in self._prioritized.items():
      handles = block.handles[unusable & (block.tables == index)].tolist()
      if handles:
        self._connection.update_priorities(name, dict.fromkeys(handles, 0.0))

  def _filled(self, block: Block, unusable: npt.NDArray[np.bool_]) -> Block:
    """The block with a usable row in the place of every unusable one; its batches stay sorted by table."""
    source = np.arange(unusable.size)
    bad, tables = unusable.ravel(), block.tables.ravel()
    for table in np.unique(tables[bad]):
      places = np.flatnonzero(bad & (tables == table))
      usable = np.flatnonzero(~bad & (tables == table))
      source[places] = self._generator.choice(usable if len(usable) else np.flatnonzero(~bad), len(places))
    filled = tables[source].reshape(block.tables.shape)
    order = np.argsort(filled, axis=1, kind="stable") + np.arange(len(filled))[:, None] * filled.shape[1]
    source = source[order]

    def rearranged(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
      moved: npt.NDArray[Any] = values.reshape(unusable.size, *values.shape[2:])[source]
      return moved

    counts = [np.bincount(batch, minlength=block.quotas.shape[1]) for batch in filled]
    return dataclasses.replace(
      block,
      rows=rearranged(block.rows),
      tables=rearranged(block.tables),
      handles=rearranged(block.handles),
      probabilities=rearranged(block.probabilities),
      table_sizes=rearranged(block.table_sizes),
      quotas=np.array(counts, block.quotas.dtype),
      columns={name: rearranged(column) for name, column in block.columns.items()},
    )

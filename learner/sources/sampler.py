"""The stratified sampler: the only reader of transitions (SSET, Algorithm 1, line 18)."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import RunConfig, ServerLost, Stopped
from learner.sources.block import Block
from learner.sources.pace import BlockPermits
from learner.sources.quotas import QuotaSchedule, tables_of_rows
from learner.sources.streams import STREAM_TIMEOUT_MS, FreshTable, Samples, StreamedTable, TableReader
from replay_server.contract.activity import Activity, Wait
from replay_server.contract.connection import Connection
from replay_server.contract.layout import PACE, pace_shape
from replay_server.contract.manifest import Manifest

CLOSE_TIMEOUT_SECONDS = 2 * STREAM_TIMEOUT_MS / 1000
_POLL_SECONDS = 0.2
_SLOW_DRAW_SECONDS = 1.0


class StratifiedSampler:
  """Draws blocks of batches in which each ready table has a fixed share; for one thread at a time."""

  def __init__(self, connection: Connection, manifest: Manifest, prefetch: bool, stop: threading.Event):
    """Draws nothing yet.

    Args:
      connection: to the server.
      manifest: of the run.
      prefetch: whether blocks are drawn while the learner learns from others; if not, every block is drawn from the tables
        as they are when it is asked for.
      stop: ends a wait.
    """
    config, width = manifest.config, manifest.codec.width
    specs = config.replay.all_tables
    self._connection = connection
    self._stop = stop
    self._names = [spec.name for spec in specs]
    self._width = width
    self._min_sizes = np.array([spec.min_size for spec in specs])
    self._ready = np.zeros(len(specs), bool)
    self._schedule = QuotaSchedule(
      np.array([spec.probability for spec in specs]), config.learner.batch_size, config.replay.at_least_one
    )
    self._batches = config.learner.updates_per_block
    self._permits = BlockPermits(connection, pace_shape(config, manifest.inline))
    self._tables = _make_readers(connection, config, width, prefetch)
    self._drawing: tuple[str, float] | None = None
    self._readiness = Activity()
    self._discarded = np.zeros(len(specs), np.int64)
    self._closed = threading.Event()

  @property
  def table_names(self) -> list[str]:
    """Names of the tables, in layout order."""
    return list(self._names)

  def describe_wait(self) -> str:
    """What the sampler is waiting for, in words for people; empty where it is not waiting."""
    drawing = self._drawing
    if drawing is not None and time.monotonic() - drawing[1] > _SLOW_DRAW_SECONDS:
      return f"waiting for table {drawing[0]} to give samples"
    return self._permits.describe_wait() if self._readiness.wait is None else self._readiness.state

  def wait(self) -> Wait | None:
    """The present wait; None where it is not waiting."""
    drawing = self._drawing
    if drawing is not None and time.monotonic() - drawing[1] > _SLOW_DRAW_SECONDS:
      return Wait("server", f"table {drawing[0]} gives samples", time.monotonic() - drawing[1])
    return self._readiness.wait or self._permits.wait()

  def awaited(self) -> tuple[str, float] | None:
    """The table whose sample it waits for, and since when, in seconds of `time.monotonic`; None if it waits for none."""
    drawing, asked = self._drawing, self._permits.waits_since
    return drawing if drawing is not None else None if asked is None else (PACE, asked)

  @property
  def most_drawn(self) -> npt.NDArray[np.int64]:
    """Upper bound on the rows drawn from each table and not discarded, including any under way; int64 [tables]."""
    return np.array([table.most_drawn for table in self._tables], np.int64) - self._discarded

  def draw_block(self) -> Block:
    """Draws the next K batches; waits until the tables hold enough and the block is due.

    Raises:
      Stopped: stopped while waiting.
    """
    if not self._ready[0]:
      self._wait_until_ready()  # No block is taken, and none is waited for, before the run has its first transitions.
    if not self._permits.take():
      raise Stopped("Stopped while waiting for environment steps.")
    while True:
      drawn = np.zeros(len(self._tables), np.int64)
      try:
        return self._draw_from_ready(drawn)
      except _TableShrank:
        self._ready[:] = False
        self._discarded += drawn

  def state(self) -> dict[str, npt.NDArray[Any]]:
    """What the tables are owed of the next batches; rows drawn ahead count as used."""
    return self._schedule.state()

  def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Restores what `state` returned; called before the first block."""
    self._schedule.restore(state)

  def close(self) -> None:
    """Interrupts a draw that is under way in any thread."""
    self._closed.set()
    self._permits.close()
    for table in self._tables:
      table.close()

  def _draw_from_ready(self, drawn: npt.NDArray[np.int64]) -> Block:
    """Draws a block from the ready tables; counts in `drawn`, int64 [tables], the rows drawn for it so far."""
    self._wait_until_ready()
    self._schedule.set_ready(self._ready)
    quotas = self._schedule.next_block(self._batches)
    tables = tables_of_rows(quotas)
    rows = np.empty((*tables.shape, self._width), np.float32)
    keys = np.empty(tables.shape, np.uint64)
    probabilities = np.empty(tables.shape)
    table_sizes = np.empty(tables.shape, np.int64)
    columns: Samples = (
      rows.reshape(-1, self._width),
      keys.reshape(-1),
      probabilities.reshape(-1),
      table_sizes.reshape(-1),
    )
    # The positions of the first table's rows, then of the second's, and so on.
    places, start = np.argsort(tables, axis=None, kind="stable"), 0
    for index, count in enumerate(quotas.sum(axis=0).tolist()):
      for part in self._draw(index, count):
        drawn[index] += len(part[0])
        place = places[start : start + len(part[0])]
        for column, values in zip(columns, part, strict=True):
          column[place] = values
        start += len(place)
    return Block(rows, tables, keys, probabilities, table_sizes, quotas, self._schedule.shares)

  def _draw(self, index: int, count: int) -> Iterator[Samples]:
    """Draws `count` rows of a table, in parts."""
    table = self._tables[index]
    self._drawing = (table.name, time.monotonic())
    try:
      while count:
        part = table.draw(count)
        if part is not None:
          count -= len(part[0])
          yield part
        elif self._closed.is_set() or self._stop.is_set():
          raise Stopped(f"Stopped while drawing from table {table.name!r}.")
        elif self._has_shrunk(index):
          raise _TableShrank
    finally:
      self._drawing = None

  def _has_shrunk(self, index: int) -> bool:
    """Whether a ready table is below its minimum again, because the server was restored from an older checkpoint."""
    try:
      size: int = self._connection.info()[self._names[index]].current_size
    except ServerLost:  # The process's watchdog decides when the server is lost for good.
      self._closed.wait(_POLL_SECONDS)
      return False
    return size < int(self._min_sizes[index])

  def _wait_until_ready(self) -> None:
    """Finds the ready tables, which hold their minimum; waits for the default table.

    Raises:
      Stopped: stopped while waiting.
    """
    if self._ready.all():
      return  # A table evicts no more than it takes in, so it only shrinks when its server is restored; see `_has_shrunk`.
    while True:
      try:
        info = self._connection.info()
      except ServerLost:  # The process's watchdog decides when the server is lost for good.
        self._readiness.waits("waiting for the server", "server", "it answers")
      else:
        sizes = np.array([info[name].current_size for name in self._names])
        self._ready = sizes >= self._min_sizes
        name, size, least = self._names[0], sizes[0], self._min_sizes[0]
        self._readiness.waits(
          f"waiting for workers: table {name} has {size} of {least} transitions",
          "workers",
          f"table {name} has {least:,} transitions ({size:,} now)",
        )
      # Every step goes to the default table, so its minimum is that of the run; see `ReplayConfig`.
      if self._ready[0]:
        self._readiness.does("drawing")
        return
      if self._closed.wait(_POLL_SECONDS) or self._stop.is_set():
        raise Stopped("Stopped while waiting for the first transitions.")


class _TableShrank(Exception):
  """A table that was ready no longer is."""


def _make_readers(connection: Connection, config: RunConfig, width: int, prefetch: bool) -> list[TableReader]:
  specs = config.replay.all_tables
  if not prefetch:
    return [FreshTable(connection, spec.name) for spec in specs]
  rows = config.learner.batch_size * config.learner.updates_per_block
  return [StreamedTable(connection, spec.name, width, max(1, round(spec.probability * rows))) for spec in specs]

"""Writes rows, and items that reference them, to the replay server.

It uses Reverb's C++ writer (replay_server/contract/reverb_api.py); tests/actors check that Reverb's Python writer would leave
the same tables behind.
"""

import collections
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy.typing as npt

from configs import ServerLost, Stopped, UserError
from replay_server.contract.connection import Connection, OtherRun
from replay_server.contract.layout import MAX_PRIORITY
from replay_server.contract.local_rows import LocalRows
from replay_server.contract.reverb_api import Reference

# Items sent one by one take three times as much CPU time as those of a burst, as threads wake each other up for each.
BURST_ITEMS = 128
BURST_SECONDS = 0.1
# Above 50 pending items Reverb warns on every one of them.
FLUSH_AFTER_ITEMS = 20
PENDING_ITEMS = 20
_FLUSH_TIMEOUT_MS = 500
# A server that answers, has room and confirms nothing for this long has lost the stream.
STALLED_SECONDS = 10.0


class Row:
  """A row for items to reference; made by `RowWriter.append`."""

  __slots__ = ("number", "references", "values")

  def __init__(self, values: npt.NDArray[Any], number: int):
    self.values: npt.NDArray[Any] | None = values  # None once it was sent.
    self.number = number
    self.references: list[Reference] = []  # One, once it was sent.


class RowSink(Protocol):
  """Takes rows, and items that reference them."""

  def append(self, values: npt.NDArray[Any]) -> Row:
    """As `RowWriter.append`."""
    ...

  def create_item(self, table: str, row: Row, priority: float = 1.0) -> None:
    """As `RowWriter.create_item`."""
    ...

  def flush(self) -> None:
    """As `RowWriter.flush`."""
    ...


class LocalRowWriter:
  """Passes the rows of an inline run to its learner's own memory, which makes all further tables itself."""

  waited_seconds = 0.0

  def __init__(self, rows: LocalRows):
    """Writes to `rows`."""
    self._rows = rows
    self._appended = 0

  def append(self, values: npt.NDArray[Any]) -> Row:
    """A row of float32 [width], for `create_item`; the caller must not change the values any more."""
    self._appended += 1
    return Row(values, self._appended)

  def create_item(self, table: str, row: Row, priority: float = 1.0) -> None:
    """Passes the row on.

    Raises:
      ValueError: it was passed on before, or `table` is not the one whose place the rows take.
    """
    del priority
    if row.values is None or table != self._rows.table:
      raise ValueError(f"row {row.number} cannot go to table {table!r}")
    self._rows.put(row.values)
    row.values = None

  def flush(self) -> None:
    """Does nothing: rows are passed on at once."""

  def reopen(self) -> None:
    """Does nothing."""

  def close(self) -> None:
    """Does nothing."""


class RowWriter:
  """Appends rows once and references them from any number of tables; for one thread.

  Items are sent in bursts: once 128 of them wait, or with the first that comes 0.1 s or more after the oldest.

  A row can be referenced until `max_references` more were appended, in later episodes too. The writer keeps only this window of
  references, so an episode of any length takes the same memory.

  Attributes:
    waited_seconds: for the server to confirm items, since the writer was made.
  """

  def __init__(
    self,
    connection: Connection,
    max_references: int,
    stop: threading.Event,
    on_wait: Callable[[bool], None] = lambda waiting: None,
  ):
    """Opens the writer.

    Args:
      connection: to the server.
      max_references: how many of the latest rows items may reference.
      stop: ends a wait for the server.
      on_wait: called with True when the server begins to hold the writer back, and with False when it no longer does.

    Raises:
      ServerLost: the server does not answer.
    """
    self._connection = connection
    self._restarts = connection.news.restarts
    self._writer = connection.open_writer(max_references)
    self._table = ""  # Of the latest item.
    self._max_references = max_references
    self._stop = stop
    self._on_wait = on_wait
    self._appended = 0
    self._queue: collections.deque[tuple[str, Row, float]] = collections.deque()
    self._oldest = 0.0
    self._unflushed = 0
    self.waited_seconds = 0.0

  def append(self, values: npt.NDArray[Any]) -> Row:
    """Appends a row, which is sent with the first item that references it.

    Args:
      values: of the table's one column, such as float32 [width]; the caller must not change them any more.

    Returns:
      The row, for `create_item`.
    """
    self._appended += 1
    return Row(values, self._appended)

  def create_item(self, table: str, row: Row, priority: float = 1.0) -> None:
    """Makes an item of one row; waits while too many items are not confirmed.

    Raises:
      UserError: `priority` is not a number from 0 to 1e9; a single NaN would make the table unusable.
      ValueError: the row is too old.
      Stopped: asked to stop while the server held the writer back.
    """
    if not 0.0 <= priority <= MAX_PRIORITY:
      raise UserError(
        f"The priority {priority} for table {table!r} must be a number from 0 to {MAX_PRIORITY:g}: clip it."
      )
    if self._appended - row.number >= self._max_references:
      raise ValueError(f"the row has expired: {self._max_references} were appended since")
    now = time.monotonic()
    if not self._queue:
      self._oldest = now
    self._queue.append((table, row, priority))
    if len(self._queue) >= BURST_ITEMS or now - self._oldest >= BURST_SECONDS:
      self.send()

  def send(self) -> None:
    """Sends all items; waits only while too many are not confirmed.

    Raises:
      Stopped: asked to stop while the server held the writer back.
    """
    writer, queue = self._writer, self._queue
    while queue:
      table, row, priority = queue.popleft()
      if row.values is not None:
        row.references = writer.append([row.values])
        row.values = None
      writer.create_item(table, row.references, priority)
      self._table = table
      self._unflushed += 1
      if self._unflushed >= FLUSH_AFTER_ITEMS:
        self._wait(PENDING_ITEMS)

  def flush(self) -> None:
    """Sends all items and waits until the server has confirmed them.

    Raises:
      Stopped: asked to stop meanwhile; the items are lost if the writer is then closed.
      ServerLost: the server was started again, or has lost the stream; `reopen` the writer.
    """
    self.send()
    self._wait(0)

  def _wait(self, pending_items: int) -> None:
    """Waits until at most `pending_items` items are not confirmed."""
    self._unflushed = 0
    began = time.monotonic()
    try:
      if not self._try_flush(pending_items):
        self._wait_long(pending_items)
    finally:
      self.waited_seconds += time.monotonic() - began

  def _wait_long(self, pending_items: int) -> None:
    self._on_wait(True)
    checked = time.monotonic()
    try:
      while not self._try_flush(pending_items):
        self._connection.progress.note()
        if self._stop.is_set():
          raise Stopped("Stopped while the server held a writer back.")
        if self._restarts != self._connection.news.restarts:
          raise ServerLost(f"The replay server at {self._connection.address} was started again.")
        if time.monotonic() - checked > STALLED_SECONDS:
          checked = time.monotonic()
          self._check_stalled()
    finally:
      self._on_wait(False)

  def _check_stalled(self) -> None:
    try:
      stalled = self._connection.takes_inserts(self._table)
    except OtherRun:
      raise
    except ServerLost:  # The process's watchdog decides when to give up.
      return
    if stalled:
      raise ServerLost(
        f"The replay server at {self._connection.address} has confirmed no item for table {self._table!r} for "
        f"{STALLED_SECONDS:g} s, although it answers and the table has room."
      )

  def _try_flush(self, pending_items: int) -> bool:
    try:
      self._writer.flush(pending_items, _FLUSH_TIMEOUT_MS)
    except TimeoutError:
      return False
    except RuntimeError as error:
      raise self._connection.explained(error) from None
    return True

  def reopen(self) -> None:
    """Drops what is not confirmed and opens the stream anew; rows appended before can be referenced no more.

    Raises:
      ServerLost: the server does not answer.
      Stopped: asked to stop meanwhile.
    """
    self.close()
    self._unflushed = 0
    self._restarts = self._connection.news.restarts
    self._writer = self._connection.open_writer(self._max_references, stop=self._stop)

  def close(self) -> None:
    """Drops pending items; call `flush` first to keep them."""
    self._queue.clear()
    self._writer.close()

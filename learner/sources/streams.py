"""Readers of one table of the server: a stream that draws portions of rows ahead, or a new draw each time."""

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from replay_server.contract.connection import Connection
from replay_server.contract.reverb_api import Sample, Sampler
from replay_server.contract.row_stream import make_row_stream

# A stream ends when it has waited this long for a sample, and is opened again, so that it notices when it is closed.
STREAM_TIMEOUT_MS = 2_000
# A second worker keeps the server busy while the first one's samples are read; a third gains nothing more.
_WORKERS = 2

# Packed rows, keys, probabilities and table sizes.
Samples = tuple[npt.NDArray[Any], ...]


class TableReader(Protocol):
  """Draws rows of one table."""

  name: str

  @property
  def most_drawn(self) -> int:
    """Upper bound on the rows drawn since the start, including any under way."""
    ...

  def draw(self, count: int) -> Samples | None:
    """Draws from one to `count` rows; None if there was none for a while, or if the reader was closed."""
    ...

  def close(self) -> None:
    """Interrupts a draw that is under way."""
    ...


class StreamedTable:
  """Draws through a Reverb data set, in portions; keeps the unused rows of a portion for the next draw."""

  def __init__(self, connection: Connection, name: str, width: int, portion: int):
    """Opens nothing yet.

    Args:
      connection: to the server.
      name: of the table.
      width: of its rows.
      portion: rows that the stream returns at once; each of its two workers draws as many ahead.
    """
    self.name = name
    self._portion = portion
    self._dataset = make_row_stream(
      connection.target, connection.wire_name(name), width, portion, _WORKERS, STREAM_TIMEOUT_MS
    )
    self._iterator: Iterator[Any] | None = None
    self._kept: Samples = (
      np.empty((0, width), np.float32),
      np.empty(0, np.uint64),
      np.empty(0),
      np.empty(0, np.int64),
    )
    self._received = 0
    self._pulling = False
    self._closed = False

  @property
  def most_drawn(self) -> int:
    """Rows received since the start, plus all that the stream may have under way."""
    # A portion that is being assembled comes on top of those that the stream's workers fetch ahead.
    return self._received + self._portion * (_WORKERS * (self._iterator is not None) + self._pulling)

  def draw(self, count: int) -> Samples | None:
    """Draws from one to `count` rows; None if there was none for a while."""
    if not len(self._kept[0]):
      portion = self._next_portion()
      if portion is None:
        return None
      self._kept = portion
    drawn = tuple(column[:count] for column in self._kept)
    self._kept = tuple(column[count:] for column in self._kept)
    return drawn

  def _next_portion(self) -> Samples | None:
    if self._closed:
      return None
    self._pulling = True
    try:
      if self._iterator is None:
        self._iterator = iter(self._dataset)
      sample = next(self._iterator)
      self._received += len(sample.info.key)
    except StopIteration:  # The stream waited too long for a sample.
      self._iterator = None
      return None
    finally:
      self._pulling = False
    info = sample.info
    return _view(sample.data["row"]), _view(info.key), _view(info.probability), _view(info.table_size)

  def close(self) -> None:
    """Ends the stream; a draw that is under way gets no more rows from it."""
    self._closed = True
    self._iterator = None


def _view(tensor: tf.Tensor) -> npt.NDArray[Any]:
  """A tensor's values, without a copy."""
  return np.asarray(memoryview(tensor))


class FreshTable:
  """Opens a new stream for each draw, so that no row is drawn before it is asked for."""

  def __init__(self, connection: Connection, name: str):
    """Opens nothing yet.

    Args:
      connection: to the server.
      name: of the table.
    """
    self.name = name
    self.most_drawn = 0
    self._connection = connection
    self._sampler: Sampler | None = None
    self._closed = False

  def draw(self, count: int) -> Samples | None:
    """Draws from one to `count` rows; None if there was none for a while, or if the reader was closed."""
    if self._closed:
      return None
    # Opening a data set takes milliseconds; opening the sampler below it does not. The sampler ends after `count` rows.
    self._sampler = sampler = self._connection.open_sampler(self.name, samples=count, in_flight=count)
    # It has no time-out of its own, and waits for ever if the table is empty again.
    timeout = threading.Timer(STREAM_TIMEOUT_MS / 1000, sampler.close)
    timeout.daemon = True
    timeout.start()
    drawn: list[Sample] = []
    try:
      while len(drawn) < count:
        drawn.append(sampler.next())
    except RuntimeError:  # It was closed, or the server is gone.
      if not drawn:
        return None
    finally:
      timeout.cancel()
    keys, probabilities, sizes, _, columns = zip(*drawn, strict=True)
    rows = np.stack([row for (row,) in columns])
    self.most_drawn += len(drawn)
    return rows, np.array(keys, np.uint64), np.array(probabilities, np.float64), np.array(sizes, np.int64)

  def close(self) -> None:
    """Interrupts a draw that is under way."""
    self._closed = True
    if self._sampler is not None:
      self._sampler.close()

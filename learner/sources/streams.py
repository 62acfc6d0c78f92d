"""Rows of one table of the server, as its selector draws them: in portions drawn ahead, or afresh."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import reverb
import tensorflow as tf

from replay_server.contract.connection import Connection
from replay_server.contract.reverb_api import Sampler

# A stream gives up waiting for a sample after this long and is opened anew, so that it notices when it should end.
STREAM_TIMEOUT_MS = 2_000

# Packed rows, keys, probabilities and table sizes.
Samples = tuple[npt.NDArray[Any], ...]


class TableReader(Protocol):
  """Draws rows of one table."""

  name: str

  @property
  def most_drawn(self) -> int:
    """Rows drawn since the start, those that may be under way included."""
    ...

  def draw(self, count: int) -> Samples | None:
    """From one to `count` rows; None where there was none for a while, or where the reader was closed."""
    ...

  def close(self) -> None:
    """Ends a draw that is under way."""
    ...


class StreamedTable:
  """Draws through a Reverb data set, in portions; what a draw leaves of a portion is kept for the next."""

  def __init__(self, connection: Connection, name: str, width: int, portion: int, workers: int):
    """Opens nothing yet.

    Args:
      connection: to the server.
      name: of the table.
      width: of its rows.
      portion: rows that the stream gives at once.
      workers: threads of the stream, each of which draws a portion ahead.
    """
    self.name = name
    self._portion = portion
    self._workers = workers
    self._dataset = _make_dataset(connection.address, name, width, portion, workers)
    self._iterator: Iterator[reverb.ReplaySample] | None = None
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
    """Rows received since the start, and those that the stream may have under way."""
    # A portion that is being put together comes on top of those that the stream's workers fetch ahead.
    return self._received + self._portion * (self._workers * (self._iterator is not None) + self._pulling)

  def draw(self, count: int) -> Samples | None:
    """From one to `count` rows; None where there was none for a while."""
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
    """Ends the stream; a draw that is under way gets nothing more from it."""
    self._closed = True
    self._iterator = None


def _view(tensor: tf.Tensor) -> npt.NDArray[Any]:
  """A tensor's values, not copied."""
  return np.asarray(memoryview(tensor))


def _make_dataset(address: str, table: str, width: int, portion: int, workers: int) -> tf.data.Dataset:
  with tf.device("CPU:0"):
    dataset = reverb.TrajectoryDataset(
      address,
      table,
      dtypes={"row": tf.float32},
      shapes={"row": tf.TensorShape([width])},
      # No more under way for a worker than one draw takes: a sample's probability should not be older than it has to be.
      max_in_flight_samples_per_worker=portion,
      num_workers_per_iterator=workers,
      rate_limiter_timeout_ms=STREAM_TIMEOUT_MS,
    ).batch(portion)
  options = tf.data.Options()
  options.autotune.enabled = False
  options.threading.private_threadpool_size = 1
  options.threading.max_intra_op_parallelism = 1
  return dataset.with_options(options)


class FreshTable:
  """Opens a stream of its own for each draw, so that no sample is drawn before it is asked for."""

  def __init__(self, connection: Connection, name: str):
    """Opens nothing yet; the arguments are those of `StreamedTable`."""
    self.name = name
    self.most_drawn = 0
    self._connection = connection
    self._sampler: Sampler | None = None
    self._closed = False

  def draw(self, count: int) -> Samples | None:
    """`count` rows; None where the reader was closed while it waited for them."""
    # A data set takes milliseconds to open; the sampler below it does not. It ends after `count` samples.
    self._sampler = self._connection.open_sampler(self.name, samples=count, in_flight=count)
    try:
      drawn = [self._sampler.next() for _ in range(count)]
    except RuntimeError:
      if not self._closed:
        raise
      return None
    keys, probabilities, sizes, _, columns = zip(*drawn, strict=True)
    rows = np.stack([row for (row,) in columns])
    self.most_drawn += count
    return rows, np.array(keys, np.uint64), np.array(probabilities, np.float64), np.array(sizes, np.int64)

  def close(self) -> None:
    """Ends a draw that is under way; a stream has no time-out of its own."""
    self._closed = True
    if self._sampler is not None:
      self._sampler.close()

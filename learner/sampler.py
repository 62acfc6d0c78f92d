"""The stratified sampler: the only reader of transitions (SSET, Algorithm 1, line 18)."""

import dataclasses
import queue
import threading
import time
from collections.abc import Iterator

import numpy as np
import reverb
import tensorflow as tf

from configs import RunConfig, ServerLost, Stopped
from learner.quotas import QuotaSchedule, tables_of_rows
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection

_POLL_SECONDS = 0.2
# A stream gives up waiting for a sample after this long and is opened anew, so that it notices when it should end.
_STREAM_TIMEOUT_MS = 2_000
_SLOW_DRAW_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Block:
  """K batches, drawn at once.

  Attributes:
    rows: float32 [K, batch, width], packed; within a batch the tables lie in layout order.
    placed_rows: the same on the learner's device.
    tables: int64 [K, batch], the index of each row's table.
    keys: uint64 [K, batch], each row's item on the server.
    probabilities: float64 [K, batch], of each row's item within its table when it was drawn.
    table_sizes: int64 [K, batch], items in each row's table when it was drawn.
    quotas: int64 [K, tables], how many rows of each batch are from each table.
    shares: float64 [tables], of all rows in the long run, as things stand: 0 for a table that is not ready.
  """

  rows: np.ndarray
  placed_rows: tf.Tensor
  tables: np.ndarray
  keys: np.ndarray
  probabilities: np.ndarray
  table_sizes: np.ndarray
  quotas: np.ndarray
  shares: np.ndarray


class StratifiedSampler:
  """Draws blocks of batches with fixed shares from each table that holds its minimum.

  A thread of its own does the drawing, so that no wait for the server is without an end: `next_block` can be told to stop.
  With `prefetch` it draws the next block while the last one is learned from; otherwise it draws when asked.
  """

  def __init__(
    self,
    connection: Connection,
    config: RunConfig,
    codec: RowCodec,
    stop: threading.Event,
    device: str = "CPU:0",
  ):
    """Makes the sampler; nothing is drawn yet.

    Args:
      connection: to the server.
      config: of the run.
      codec: of its rows.
      stop: ends a wait.
      device: for the rows; the drawing thread brings them there, while the last block is learned from.
    """
    self._device = device
    specs = config.replay.all_tables
    self._connection = connection
    self._stop = stop
    self._names = [spec.name for spec in specs]
    self._width = codec.width
    self._min_sizes = np.array([spec.min_size for spec in specs])
    self._ready = np.zeros(len(specs), bool)
    self._schedule = QuotaSchedule(
      np.array([spec.probability for spec in specs]), config.learner.batch_size, config.replay.at_least_one
    )
    self._batches = config.learner.updates_per_block
    self._prefetch = config.learner.prefetch
    # Without prefetching, and one batch at a time, every draw is of the tables as they are now.
    stream = _StreamedTable if self._prefetch or self._batches > 1 else _FreshTable
    rows = config.learner.batch_size * self._batches
    # The second keeps the server busy while the first one's samples are taken up, a third gains nothing more.
    workers = 2 if self._prefetch else 1
    self._tables = [
      stream(connection, spec.name, codec.width, max(1, round(spec.probability * rows)), workers) for spec in specs
    ]
    self._requests: queue.Queue[bool] = queue.Queue()
    self._blocks: queue.Queue[Block | BaseException] = queue.Queue()
    self._requested = 0
    self._handed_out = np.zeros(len(specs), np.int64)
    self._drawing: tuple[str, float] | None = None
    self._waiting_for = ""
    self._closed = threading.Event()
    self._thread: threading.Thread | None = None

  @property
  def table_names(self) -> list[str]:
    """Names of the tables, in layout order."""
    return list(self._names)

  @property
  def waiting_for(self) -> str:
    """What the drawing waits for, for people; empty where it does not."""
    drawing = self._drawing
    if drawing is not None and time.monotonic() - drawing[1] > _SLOW_DRAW_SECONDS:
      return f"waiting for workers: table {drawing[0]} gives no more samples until it gets more transitions"
    return self._waiting_for

  def drawn_ahead(self) -> dict[str, int]:
    """Table -> the most rows that were drawn and are not yet in a block handed out.

    Their probabilities are those of when they were drawn. All zero with `prefetch=False` and `updates_per_block=1`.
    """
    return {
      name: table.most_drawn - int(handed_out) if table.draws_ahead else 0
      for name, table, handed_out in zip(self._names, self._tables, self._handed_out, strict=True)
    }

  def next_block(self) -> Block:
    """The next K batches; waits until the tables hold enough.

    Raises:
      Stopped: told to stop while waiting.
      ServerLost: the server does not answer.
    """
    if self._thread is None:
      self._thread = threading.Thread(target=self._draw_forever, name="sampler", daemon=True)
      self._thread.start()
    self._request_up_to(1)
    while True:
      try:
        block = self._blocks.get(timeout=_POLL_SECONDS)
        break
      except queue.Empty:
        if self._stop.is_set():
          raise Stopped("Stopped while waiting for transitions.") from None
    self._requested -= 1
    if isinstance(block, BaseException):
      raise block
    self._handed_out += block.quotas.sum(axis=0)
    if self._prefetch:
      self._request_up_to(1)
    return block

  def _request_up_to(self, blocks: int) -> None:
    while self._requested < blocks:
      self._requests.put(True)
      self._requested += 1

  def close(self) -> None:
    """Ends the drawing thread; a draw that is under way is waited for, not for long."""
    self._closed.set()
    self._requests.put(False)
    for table in self._tables:
      table.close()
    if self._thread is not None:
      self._thread.join(2 * _STREAM_TIMEOUT_MS / 1000)

  def _draw_forever(self) -> None:
    while self._requests.get() and not self._closed.is_set():
      try:
        self._blocks.put(self._draw_block())
      except BaseException as error:  # Handed to whoever asked for the block.
        self._blocks.put(error)

  def _draw_block(self) -> Block:
    while True:
      drawn = np.zeros(len(self._tables), np.int64)
      try:
        return self._draw_ready(drawn)
      except _TableShrank:
        self._ready[:] = False
        self._handed_out += drawn  # Thrown away, so no longer ahead.

  def _draw_ready(self, drawn: np.ndarray) -> Block:
    """A block from the tables that are ready; counts in `drawn`, int64 [tables], what has been drawn for it."""
    self._wait_until_ready()
    self._schedule.set_ready(self._ready)
    quotas = self._schedule.next_block(self._batches)
    tables = tables_of_rows(quotas)
    rows = np.empty((*tables.shape, self._width), np.float32)
    keys = np.empty(tables.shape, np.uint64)
    probabilities = np.empty(tables.shape)
    table_sizes = np.empty(tables.shape, np.int64)
    columns: _Rows = (
      rows.reshape(-1, self._width),
      keys.reshape(-1),
      probabilities.reshape(-1),
      table_sizes.reshape(-1),
    )
    # Where the rows of the first table go, then those of the second, and so on.
    places, start = np.argsort(tables, axis=None, kind="stable"), 0
    for index, count in enumerate(quotas.sum(axis=0).tolist()):
      for part in self._draw(index, count):
        drawn[index] += len(part[0])
        place = places[start : start + len(part[0])]
        for column, values in zip(columns, part, strict=True):
          column[place] = values
        start += len(place)
    with tf.device(self._device):
      placed_rows = tf.constant(rows)
    return Block(rows, placed_rows, tables, keys, probabilities, table_sizes, quotas, self._schedule.shares)

  def _draw(self, index: int, count: int) -> Iterator["_Rows"]:
    """`count` rows of a table, in parts."""
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
    """Whether a table holds less than its minimum again: its server came back from a checkpoint of before."""
    try:
      size: int = self._connection.info()[self._names[index]].current_size
    except ServerLost:  # The process's watchdog decides how long is too long.
      return False
    return size < int(self._min_sizes[index])

  def _wait_until_ready(self) -> None:
    """Notes which tables hold their minimum; waits for the first."""
    if self._ready.all():
      return  # A table that evicts what it is full of shrinks only with its server; see `_has_shrunk`.
    while True:
      try:
        info = self._connection.info()
      except ServerLost:  # The process's watchdog decides how long is too long.
        self._waiting_for = "waiting for the server"
      else:
        sizes = np.array([info[name].current_size for name in self._names])
        self._ready = sizes >= self._min_sizes
        self._waiting_for = (
          f"waiting for workers: table {self._names[0]} has {sizes[0]} of {self._min_sizes[0]} transitions"
        )
      # Every step is in the default table, so its minimum is the run's; see configs.ReplayConfig.
      if self._ready[0]:
        self._waiting_for = ""
        return
      if self._closed.wait(_POLL_SECONDS) or self._stop.is_set():
        raise Stopped("Stopped while waiting for the first transitions.")


class _TableShrank(Exception):
  """A table that was ready no longer is."""


# Packed rows, keys, probabilities and table sizes.
_Rows = tuple[np.ndarray, ...]


class _StreamedTable:
  """Draws through a Reverb data set, in portions; what a draw leaves of a portion is kept for the next."""

  draws_ahead = True

  def __init__(self, connection: Connection, name: str, width: int, portion: int, workers: int):
    self.name = name
    self._portion = portion
    self._workers = workers
    self._dataset = _make_dataset(connection.address, name, width, portion, workers)
    self._iterator: Iterator[reverb.ReplaySample] | None = None
    self._kept: _Rows = (np.empty((0, width), np.float32), np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))
    self._received = 0
    self._pulling = False
    self._closed = False

  @property
  def most_drawn(self) -> int:
    """Rows received since the start, and those that the stream may have under way."""
    # A portion that is being put together comes on top of those that the stream's workers fetch ahead.
    return self._received + self._portion * (self._workers * (self._iterator is not None) + self._pulling)

  def draw(self, count: int) -> _Rows | None:
    """From one to `count` rows; None where there was none for a while."""
    if not len(self._kept[0]):
      portion = self._next_portion()
      if portion is None:
        return None
      self._kept = portion
    drawn = tuple(column[:count] for column in self._kept)
    self._kept = tuple(column[count:] for column in self._kept)
    return drawn

  def _next_portion(self) -> _Rows | None:
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


def _view(tensor: tf.Tensor) -> np.ndarray:
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
      rate_limiter_timeout_ms=_STREAM_TIMEOUT_MS,
    ).batch(portion)
  options = tf.data.Options()
  options.autotune.enabled = False
  options.threading.private_threadpool_size = 1
  options.threading.max_intra_op_parallelism = 1
  return dataset.with_options(options)


class _FreshTable:
  """Draws with a stream of its own each time, so that no sample is drawn before it is asked for."""

  draws_ahead = False
  most_drawn = 0

  def __init__(self, connection: Connection, name: str, width: int, portion: int, workers: int):
    del width, portion, workers
    self.name = name
    self._connection = connection
    self._sampler: reverb.pybind.Sampler | None = None
    self._closed = False

  def draw(self, count: int) -> _Rows | None:
    """`count` rows, or None where it was closed while it waited for them."""
    # A data set takes milliseconds to open; the sampler below it does not. It ends after `count` samples.
    self._sampler = self._connection.client._client.NewSampler(self.name, count, count)
    try:
      drawn = [self._sampler.GetNextTrajectory() for _ in range(count)]
    except RuntimeError:
      if not self._closed:
        raise
      return None
    keys, probabilities, sizes, _, rows = zip(*drawn, strict=True)
    return np.stack(rows), np.array(keys, np.uint64), np.array(probabilities, np.float64), np.array(sizes, np.int64)

  def close(self) -> None:
    """Ends a draw that is under way; a stream has no time-out of its own."""
    self._closed = True
    if self._sampler is not None:
      self._sampler.Close()

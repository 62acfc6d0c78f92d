"""The server's tables, as Reverb's objects; docs/contract.md describes them."""

from collections.abc import Callable

import reverb
import tensorflow as tf

from configs import RunConfig
from configs.specs import Selector
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.layout import PaceShape, QueueShape, TableShape

# Messages that may wait for their reader before the oldest is dropped.
MOST_MESSAGES = 10_000
MOST_HISTORIES = 100_000

_TEXT = tf.TensorSpec([], tf.string)

_SELECTORS: dict[Selector, Callable[[TableShape], reverb.pybind.ItemSelector]] = {
  "uniform": lambda shape: reverb.selectors.Uniform(),
  "prioritized": lambda shape: reverb.selectors.Prioritized(shape.priority_exponent),
  "fifo": lambda shape: reverb.selectors.Fifo(),
  "lifo": lambda shape: reverb.selectors.Lifo(),
}


def make_tables(run_id: str, config: RunConfig, codec: RowCodec, inline: bool) -> list[reverb.Table]:
  """All tables of a server, under their names on the wire.

  Args:
    run_id: of the run.
    config: of the run.
    codec: of its rows.
    inline: whether the run is inline, and counts for itself.
  """
  policy = {name: tf.TensorSpec(shape, dtype) for name, (dtype, shape) in layout.POLICY_COLUMNS.items()}
  history = tf.TensorSpec([layout.HISTORY_WORDS], tf.int64, "history")

  def wire(table: str) -> str:
    return layout.wire_name(run_id, table)

  return [
    *(_transition_table(wire(shape.name), shape, codec) for shape in layout.table_shapes(config, inline)),
    # A policy's priority is its version, so one that arrives late, from a learner that was paused and replaced, is dropped.
    _latest(wire(layout.POLICY), policy, reverb.selectors.MinHeap()),
    _latest(wire(layout.RUN), _TEXT),
    _queue(wire(layout.EPISODES), MOST_MESSAGES, _TEXT),
    _queue(wire(layout.HEARTBEATS), MOST_MESSAGES, _TEXT),
    _queue(wire(layout.HISTORIES), MOST_HISTORIES, history),
    _pace_table(wire(layout.PACE), layout.pace_shape(config, inline)),
    _latest(wire(layout.STATUS), _TEXT),
  ]


def row_signature(codec: RowCodec) -> tf.TensorSpec:
  """The signature of a table of transitions: one item is one row, float32 [width]."""
  return tf.TensorSpec([codec.width], tf.float32, "row")


def _transition_table(name: str, shape: TableShape | QueueShape, codec: RowCodec) -> reverb.Table:
  if isinstance(shape, QueueShape):
    return _queue(name, shape.capacity, row_signature(codec), shape.waits)
  return reverb.Table(
    name=name,
    sampler=_SELECTORS[shape.selector](shape),
    remover=reverb.selectors.Fifo(),
    max_size=shape.capacity,
    rate_limiter=reverb.rate_limiters.MinSize(shape.min_size),
    signature=row_signature(codec),
  )


def _pace_table(name: str, shape: PaceShape) -> reverb.Table:
  """The one table that makes its writers wait: those of workers, who have nothing else to write through them."""
  limiter = reverb.rate_limiters.MinSize(1)
  if shape.samples_per_insert is not None:
    limiter = reverb.rate_limiters.SampleToInsertRatio(shape.samples_per_insert, shape.min_size, shape.error_buffer)
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=shape.min_size,
    rate_limiter=limiter,
    signature=tf.TensorSpec([], tf.int64, "steps"),
  )


def _latest(name: str, signature: object, remover: reverb.pybind.ItemSelector | None = None) -> reverb.Table:
  """A table that holds one item: the one written last, or what `remover` leaves of it and the one before."""
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Fifo(),
    remover=remover or reverb.selectors.Fifo(),
    max_size=1,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=signature,
  )


def _queue(name: str, size: int, signature: tf.TensorSpec, waits: bool = False) -> reverb.Table:
  """A table whose items are read once; writers to a full one wait, or it drops its oldest."""
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=size,
    max_times_sampled=1,
    rate_limiter=reverb.rate_limiters.Queue(size) if waits else reverb.rate_limiters.MinSize(1),
    signature=signature,
  )

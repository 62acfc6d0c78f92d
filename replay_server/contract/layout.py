"""Which tables a server has and what a row of them is; docs/contract.md tells the same in words."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import reverb
import tensorflow as tf
from acme import specs

from configs import ReplayConfig, RunConfig, TableSpec
from configs.specs import Selector
from replay_server.contract.codec import RowCodec

# Raised whenever a row's fields or a table's meaning change, so that old and new processes refuse each other.
LAYOUT_VERSION = 2

# Larger priorities make the server's sum tree slow: 310 ms for a batch of updates at 1e12.
MAX_PRIORITY = 1e9

POLICY = "policy"
RUN = "run"
EPISODES = "episodes"
HEARTBEATS = "heartbeats"
HISTORIES = "histories"
STATUS = "status"

# Summaries that may wait for the server process before the oldest is dropped.
_MESSAGES = 10_000
_HISTORIES = 100_000

_TEXT = tf.TensorSpec([], tf.string)


@dataclasses.dataclass(frozen=True)
class TableShape:
  """What a table of transitions is made from, and what Reverb therefore keeps in a checkpoint.

  Attributes:
    name: of the table.
    selector: how an item is chosen.
    priority_exponent: of a prioritised table; None for any other.
    capacity: in transitions.
    min_size: transitions from which on the server lets it be sampled.
    samples_per_insert: that the server holds both sides to; None where it does not.
    error_buffer: samples by which they may drift apart; None where they are not held.
  """

  name: str
  selector: Selector
  priority_exponent: float | None
  capacity: int
  min_size: int
  samples_per_insert: float | None = None
  error_buffer: float | None = None


# What a config says of a field of `TableShape`, for people: how it is called, and the keys that it comes from.
_FIELD_NAMES = {
  "selector": ("the selector", "its selector"),
  "priority_exponent": ("the priority exponent", "replay.priority.exponent"),
  "capacity": ("the capacity", "its capacity, replay.capacity, its probability"),
  "min_size": ("the min_size", "its min_size"),
  "samples_per_insert": (
    "samples per insert",
    "replay.environment_steps_per_update, learner.batch_size, replay.at_least_one, the tables' probabilities, --inline",
  ),
  "error_buffer": (
    "an error buffer of",
    "replay.insert_tolerance_steps, learner.updates_per_block, learner.batch_size, samples per insert",
  ),
}

_SELECTORS: dict[Selector, Callable[[TableShape], reverb.pybind.ItemSelector]] = {
  "uniform": lambda shape: reverb.selectors.Uniform(),
  "prioritized": lambda shape: reverb.selectors.Prioritized(shape.priority_exponent),
  "fifo": lambda shape: reverb.selectors.Fifo(),
  "lifo": lambda shape: reverb.selectors.Lifo(),
}


def make_row_codec(spec: specs.EnvironmentSpec) -> RowCodec:
  """The row of a transition x_t of an environment.

  Args:
    spec: of the environment: observations and actions are arrays.
  """
  observation = (spec.observations.dtype, spec.observations.shape)
  return RowCodec.of(
    {
      "observation": observation,
      "next_observation": observation,
      "action": (spec.actions.dtype, spec.actions.shape),
      "reward": (np.float32, ()),
      "discount": (np.float32, ()),
      "steps": (np.int32, ()),
      "terminated": (np.bool_, ()),
      "truncated": (np.bool_, ()),
      "events": (np.int32, ()),
      "episode": (np.int64, ()),
      "step": (np.int32, ()),
      "policy_version": (np.int32, ()),
    }
  )


def row_signature(codec: RowCodec) -> tf.TensorSpec:
  """The signature of a table of transitions: one item is one row, float32 [width]."""
  return tf.TensorSpec([codec.width], tf.float32, "row")


def policy_signature() -> dict[str, tf.TensorSpec]:
  """The signature of the policy table; its columns in the order in which Reverb flattens it."""
  return {
    "learner_steps": tf.TensorSpec([], tf.int64),
    "priorities": tf.TensorSpec([None], tf.float32),
    "version": tf.TensorSpec([], tf.int64),
    "weights": tf.TensorSpec([None], tf.float32),
  }


def history_signature() -> tf.TensorSpec:
  """The signature of the table of histories: (index of the table, episode, first step, last step), int64 [4]."""
  return tf.TensorSpec([4], tf.int64, "history")


def table_shapes(config: RunConfig, limit_samples: bool) -> list[TableShape]:
  """The tables of transitions, in layout order.

  Args:
    config: of the run.
    limit_samples: as in `make_tables`.
  """
  replay = config.replay
  # One blocked table stalls all of a writer's tables, so nothing but the default table ever makes a writer wait.
  events = [_shape(replay, table, min_size=1) for table in replay.tables]
  return [_default_shape(config, limit_samples), *events]


def first_difference(old: Sequence[TableShape], new: Sequence[TableShape]) -> str:
  """Where tables of a checkpoint differ from those that a config asks for; empty where they do not.

  Args:
    old: those of the checkpoint.
    new: those of the config; of another name than any of `old` they may be like anything.
  """
  asked = {shape.name: shape for shape in new}
  for shape in old:
    for name, (called, keys) in _FIELD_NAMES.items():
      has, wants = getattr(shape, name), getattr(asked.get(shape.name, shape), name)
      if has != wants:
        return f"table {shape.name!r} has {_tell(called, has)} and this config asks for {_say(wants)} ({keys})"
  return ""


def _tell(called: str, value: object) -> str:
  return (
    f"no {called.removeprefix('the ').removeprefix('an ').removesuffix(' of')}"
    if value is None
    else f"{called} {_say(value)}"
  )


def _say(value: object) -> str:
  return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def make_tables(config: RunConfig, codec: RowCodec, limit_samples: bool) -> list[reverb.Table]:
  """All tables of a server.

  Args:
    config: of the run.
    codec: of its rows.
    limit_samples: tie sampling to inserting by `replay.environment_steps_per_update`; an inline run counts for itself.
  """
  return [
    *(_transition_table(shape, codec) for shape in table_shapes(config, limit_samples)),
    _latest(POLICY, policy_signature()),
    _latest(RUN, _TEXT),
    _queue(EPISODES, _MESSAGES, _TEXT),
    _queue(HEARTBEATS, _MESSAGES, _TEXT),
    _queue(HISTORIES, _HISTORIES, history_signature()),
    _latest(STATUS, _TEXT),
  ]


def batch_shares(probabilities: np.ndarray, batch_size: int, at_least_one: bool) -> np.ndarray:
  """The long-run shares of batches.

  Args:
    probabilities: float [tables], eta_i, with any positive sum; 0 for a table that takes no part.
    batch_size: rows of a batch.
    at_least_one: every table that takes part has a row in every batch. Smaller shares are raised to that, and the others give
      up as much, in proportion to what they have beyond a row.

  Returns:
    float64 [tables], summing to 1.
  """
  shares = probabilities / probabilities.sum()
  if not at_least_one:
    return shares
  row = (probabilities > 0) / batch_size
  beyond = np.maximum(shares - row, 0.0)
  # Nothing is beyond where there are as many tables as rows.
  return row + (1.0 - row.sum()) * beyond / beyond.sum() if beyond.any() else row


def samples_per_insert(config: RunConfig) -> float | None:
  """Samples of the default table for one transition inserted there, once every table is ready; None is no limit."""
  steps = config.replay.environment_steps_per_update
  if steps is None:
    return None
  probabilities = np.array([table.probability for table in config.replay.all_tables])
  shares = batch_shares(probabilities, config.learner.batch_size, config.replay.at_least_one)
  return float(shares[0]) * config.learner.batch_size / steps


def _shape(replay: ReplayConfig, table: TableSpec, min_size: int) -> TableShape:
  exponent = replay.priority.exponent if table.selector == "prioritized" else None
  return TableShape(table.name, table.selector, exponent, replay.capacity_of(table), min_size)


def _default_shape(config: RunConfig, limit_samples: bool) -> TableShape:
  replay = config.replay
  shape = _shape(replay, replay.default, replay.default.min_size)
  ratio = samples_per_insert(config) if limit_samples else None
  if ratio is None:
    return shape
  # While no event table is ready a whole block comes from here, and one more is drawn ahead.
  blocks = 3 * config.learner.updates_per_block * config.learner.batch_size
  return dataclasses.replace(
    shape, samples_per_insert=ratio, error_buffer=float(max(replay.insert_tolerance_steps * ratio, blocks))
  )


def _limiter(shape: TableShape) -> reverb.rate_limiters.RateLimiter:
  if shape.samples_per_insert is None:
    return reverb.rate_limiters.MinSize(shape.min_size)
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=shape.samples_per_insert,
    min_size_to_sample=shape.min_size,
    error_buffer=shape.error_buffer,
  )


def _transition_table(shape: TableShape, codec: RowCodec) -> reverb.Table:
  return reverb.Table(
    name=shape.name,
    sampler=_SELECTORS[shape.selector](shape),
    remover=reverb.selectors.Fifo(),
    max_size=shape.capacity,
    rate_limiter=_limiter(shape),
    signature=row_signature(codec),
  )


def _latest(name: str, signature: object) -> reverb.Table:
  """A table that holds the last thing written to it."""
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=1,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=signature,
  )


def _queue(name: str, size: int, signature: tf.TensorSpec) -> reverb.Table:
  """A table whose items are read once; a full one drops its oldest and never blocks a writer."""
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=size,
    max_times_sampled=1,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=signature,
  )

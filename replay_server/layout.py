"""Which tables a server has and what a row of them is; docs/contract.md tells the same in words."""

from collections.abc import Callable

import numpy as np
import reverb
import tensorflow as tf
from acme import specs

from configs import PriorityConfig, ReplayConfig, RunConfig, TableSpec
from replay_server.codec import RowCodec

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

_SELECTORS: dict[str, Callable[[PriorityConfig], reverb.pybind.ItemSelector]] = {
  "uniform": lambda priority: reverb.selectors.Uniform(),
  "prioritized": lambda priority: reverb.selectors.Prioritized(priority.exponent),
  "fifo": lambda priority: reverb.selectors.Fifo(),
  "lifo": lambda priority: reverb.selectors.Lifo(),
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


def make_tables(config: RunConfig, codec: RowCodec, limit_samples: bool) -> list[reverb.Table]:
  """All tables of a server.

  Args:
    config: of the run.
    codec: of its rows.
    limit_samples: tie sampling to inserting by `replay.environment_steps_per_update`; an inline run counts for itself.
  """
  replay = config.replay
  default = _transition_table(replay, replay.default, codec, _default_limiter(config, limit_samples))
  # One blocked table stalls all of a writer's tables, so nothing but the default table ever makes a writer wait.
  events = [_transition_table(replay, table, codec, reverb.rate_limiters.MinSize(1)) for table in replay.tables]
  return [
    default,
    *events,
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


def _default_limiter(config: RunConfig, limit_samples: bool) -> reverb.rate_limiters.RateLimiter:
  ratio = samples_per_insert(config) if limit_samples else None
  if ratio is None:
    return reverb.rate_limiters.MinSize(config.replay.default.min_size)
  # While no event table is ready a whole block comes from here, and one more is drawn ahead.
  blocks = 3 * config.learner.updates_per_block * config.learner.batch_size
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=ratio,
    min_size_to_sample=config.replay.default.min_size,
    error_buffer=max(config.replay.insert_tolerance_steps * ratio, blocks),
  )


def _transition_table(
  replay: ReplayConfig, table: TableSpec, codec: RowCodec, limiter: reverb.rate_limiters.RateLimiter
) -> reverb.Table:
  return reverb.Table(
    name=table.name,
    sampler=_SELECTORS[table.selector](replay.priority),
    remover=reverb.selectors.Fifo(),
    max_size=replay.capacity_of(table),
    rate_limiter=limiter,
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

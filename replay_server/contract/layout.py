"""Which tables a server has, and what a row holds; docs/contract.md says the same in prose."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import ReplayConfig, RunConfig, TableSpec
from configs.specs import Selector
from replay_server.contract.codec import RowCodec

# Raised whenever a row's fields or a table's meaning change, so that old and new processes refuse each other.
LAYOUT_VERSION = 3

# Larger priorities make the server's sum tree slow: 310 ms for a batch of updates at 1e12.
MAX_PRIORITY = 1e9

POLICY = "policy"
RUN = "run"
EPISODES = "episodes"
HEARTBEATS = "heartbeats"
HISTORIES = "histories"
STATUS = "status"

# The policy table's columns, name -> (dtype, shape), sorted by name, as Reverb sorts them.
POLICY_COLUMNS: Mapping[str, tuple[str, tuple[int | None, ...]]] = {
  "learner_steps": ("int64", ()),
  "priorities": ("float32", (None,)),
  "version": ("int64", ()),
  "weights": ("float32", (None,)),
}

# Words of an item of the table of histories, int64: index of the table, episode, first step, last step.
HISTORY_WORDS = 4


@dataclasses.dataclass(frozen=True)
class TableShape:
  """The settings of a table of transitions; Reverb keeps them in its checkpoints.

  Attributes:
    name: of the table.
    selector: how an item is drawn.
    priority_exponent: of a prioritised table; None for any other.
    capacity: in transitions.
    min_size: transitions that it must hold before the server lets it be sampled.
    samples_per_insert: ratio that the server enforces; None if it enforces none.
    error_buffer: samples by which the ratio may be off; None if none is enforced.
  """

  name: str
  selector: Selector
  priority_exponent: float | None
  capacity: int
  min_size: int
  samples_per_insert: float | None = None
  error_buffer: float | None = None


# For messages: field of `TableShape` -> its name in words, and the config keys that it follows from.
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


def make_row_codec(
  spec: specs.EnvironmentSpec, extra: Mapping[str, tuple[Any, tuple[int, ...]]] = types.MappingProxyType({})
) -> RowCodec:
  """The row of a transition x_t of an environment.

  Args:
    spec: of the environment: observations and actions are arrays.
    extra: further fields of a row, name -> (dtype, shape), after those of every transition.

  Raises:
    UserError: a row cannot hold an observation, an action or an extra field.
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
      **extra,
    }
  )


def run_codec(config: RunConfig, spec: specs.EnvironmentSpec) -> RowCodec:
  """The row of a run: a transition, and the extra fields of the run's algorithm.

  Raises:
    UserError: as `make_row_codec`.
  """
  return make_row_codec(spec, config.learner.algorithm.row_fields(spec.actions.shape))


def table_shapes(config: RunConfig, limit_samples: bool) -> list[TableShape]:
  """The tables of transitions, in layout order.

  Args:
    config: of the run.
    limit_samples: whether the server ties sampling to inserting, by `replay.environment_steps_per_update`; an inline run does
      that itself.
  """
  replay = config.replay
  # One blocked table stalls all of a writer's tables, so only the default table may ever make a writer wait.
  events = [_shape(replay, table, min_size=1) for table in replay.tables]
  return [_default_shape(config, limit_samples), *events]


def first_difference(old: Sequence[TableShape], new: Sequence[TableShape]) -> str:
  """The first difference between a checkpoint's tables and a config's, as part of a sentence; empty if there is none.

  Args:
    old: tables of the checkpoint.
    new: tables of the config; one whose name is not in `old` is ignored.
  """
  asked = {shape.name: shape for shape in new}
  for shape in old:
    for name, (called, keys) in _FIELD_NAMES.items():
      has, wants = getattr(shape, name), getattr(asked.get(shape.name, shape), name)
      if has != wants:
        return f"table {shape.name!r} has {_describe(called, has)} and this config asks for {_format(wants)} ({keys})"
  return ""


def _describe(called: str, value: object) -> str:
  return (
    f"no {called.removeprefix('the ').removeprefix('an ').removesuffix(' of')}"
    if value is None
    else f"{called} {_format(value)}"
  )


def _format(value: object) -> str:
  return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def batch_shares(
  probabilities: npt.NDArray[np.float64], batch_size: int, at_least_one: bool
) -> npt.NDArray[np.float64]:
  """Every table's share of the batches in the long run.

  Args:
    probabilities: float [tables], the configured shares eta_i, with any positive sum; 0 for a table that takes no part.
    batch_size: rows of a batch.
    at_least_one: whether every table that takes part has at least one row in every batch. Smaller shares are then raised to one
      row, and the other tables give up rows in proportion to their shares beyond one row.

  Returns:
    float64 [tables], summing to 1.
  """
  shares: npt.NDArray[np.float64] = probabilities / probabilities.sum()
  if not at_least_one:
    return shares
  row: npt.NDArray[np.float64] = (probabilities > 0) / batch_size
  beyond = np.maximum(shares - row, 0.0)
  # With as many tables as rows, no share exceeds one row.
  if beyond.any():
    row += (1.0 - row.sum()) * beyond / beyond.sum()
  return row


def samples_per_insert(config: RunConfig) -> float | None:
  """Samples of the default table per transition inserted into it, once every table is ready; None for no limit."""
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
  # While no event table is ready, whole blocks come from this table, and one more is drawn ahead.
  blocks = 3 * config.learner.updates_per_block * config.learner.batch_size
  return dataclasses.replace(
    shape, samples_per_insert=ratio, error_buffer=float(max(replay.insert_tolerance_steps * ratio, blocks))
  )

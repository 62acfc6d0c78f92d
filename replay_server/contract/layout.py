"""Which tables a server has, and what a row holds; docs/contract.md says the same in prose."""

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import ReplayConfig, RunConfig, TableSpec
from configs.specs import Selector
from replay_server.contract.codec import RowCodec

# Raised whenever a row's fields or a table's meaning change, so that old and new processes refuse each other.
LAYOUT_VERSION = 6

# Larger priorities make the server's sum tree slow: 310 ms for a batch of updates at 1e12.
MAX_PRIORITY = 1e9

POLICY = "policy"
RUN = "run"
EPISODES = "episodes"
HEARTBEATS = "heartbeats"
HISTORIES = "histories"
PACE = "pace"
STATUS = "status"

# The policy table's columns, name -> (dtype, shape), sorted by name, as Reverb sorts them.
POLICY_COLUMNS: Mapping[str, tuple[str, tuple[int | None, ...]]] = {
  "learner_steps": ("int64", ()),
  "priorities": ("float32", (None,)),
  "version": ("int64", ()),
  "weights": ("float32", (None,)),
}

# A row's episode is (its writer's id << EPISODE_BITS) + (number of the writer's episode).
EPISODE_BITS = 32

# Words of an item of the table of histories, int64: index of the table, episode, first step, last step.
HISTORY_WORDS = 4


def wire_name(run_id: str, table: str) -> str:
  """The name of a run's table in Reverb."""
  return f"{run_id}/{table}" if run_id else table


def run_of(names: Iterable[str]) -> str:
  """The id of the run whose tables have these names in Reverb; "" if they are not of a run, or of an earlier layout version."""
  return next((name.removesuffix(f"/{RUN}") for name in names if name.endswith(f"/{RUN}")), "")


@dataclasses.dataclass(frozen=True)
class TableShape:
  """The settings of a table of transitions; Reverb keeps them in its checkpoints.

  Attributes:
    name: of the table.
    selector: how an item is drawn.
    priority_exponent: of a prioritised table; None for any other.
    capacity: in transitions.
    min_size: transitions that it must hold before the server lets it be sampled.
  """

  name: str
  selector: Selector
  priority_exponent: float | None
  capacity: int
  min_size: int


@dataclasses.dataclass(frozen=True)
class QueueShape:
  """The default table of a run whose learner has its own memory: it passes every transition on once, in the order of arrival.

  Reverb keeps these settings in its checkpoints.

  Attributes:
    name: of the table.
    capacity: transitions that may wait to be read; then their writers wait.
    waits: whether they do; otherwise the oldest transition is dropped unread.
  """

  name: str
  capacity: int
  waits: bool


# How many transitions one item of the table `pace` stands for, at most: with more items a worker would spend more time on them,
# with fewer it would be held back later.
_MOST_PACE_STEPS = 32
_LEAST_PACE_ITEMS = 32  # In the tolerance, unless that is less than as many steps.


@dataclasses.dataclass(frozen=True)
class PaceShape:
  """How the server ties collecting to learning; Reverb keeps it in its checkpoints.

  A worker writes an item to the table `pace` for every `steps_per_item` transitions, and the learner takes a sample from it for
  every block. So the ratio does not depend on which tables the rows of a batch come from.

  Attributes:
    environment_steps_per_update: ratio that the server enforces; None if it enforces none, and then the others are 0.
    updates_per_block: updates for each sample.
    tolerance_steps: environment steps by which either side may be ahead.
    warm_up_steps: environment steps before the first update, which do not count.
    name: of the table.
  """

  environment_steps_per_update: float | None = None
  updates_per_block: int = 0
  tolerance_steps: float = 0.0
  warm_up_steps: int = 0
  name: str = PACE

  @property
  def steps_per_item(self) -> int:
    """Transitions for each item; 0 if no ratio is enforced, and then workers write none."""
    if self.environment_steps_per_update is None:
      return 0
    return max(1, min(_MOST_PACE_STEPS, int(self.tolerance_steps) // _LEAST_PACE_ITEMS))

  @property
  def min_size(self) -> int:
    """Items that the table must hold before it is sampled, and at most holds: those of the warm-up."""
    return max(1, self.warm_up_steps // self.steps_per_item) if self.steps_per_item else 1

  @property
  def samples_per_insert(self) -> float | None:
    """Blocks for each item; None if no ratio is enforced."""
    return self._blocks(self.steps_per_item)

  @property
  def error_buffer(self) -> float | None:
    """Blocks by which the ratio may be off; None if no ratio is enforced."""
    return self._blocks(self.tolerance_steps)

  def _blocks(self, steps: float) -> float | None:
    ratio = self.environment_steps_per_update
    return None if ratio is None else steps / (ratio * self.updates_per_block)


# For messages: field of a shape -> its name in words, and the config keys that it follows from.
_FIELD_NAMES = {
  "selector": ("the selector", "its selector"),
  "priority_exponent": ("the priority exponent", "replay.priority.exponent"),
  "capacity": (
    "the capacity",
    "its capacity, replay.capacity, its probability",
  ),
  "min_size": ("the min_size", "its min_size"),
  "waits": ("writers that wait:", "replay.environment_steps_per_update, --inline"),
  "environment_steps_per_update": (
    "environment steps per update",
    "replay.environment_steps_per_update, --inline",
  ),
  "updates_per_block": ("updates per block", "learner.updates_per_block"),
  "tolerance_steps": (
    "a tolerance in steps of",
    "replay.insert_tolerance_steps, learner.updates_per_block, replay.environment_steps_per_update",
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
  """The row of a run: a transition, and what else its learner reads.

  Raises:
    UserError: as `make_row_codec`.
  """
  return make_row_codec(spec, config.learner.row_fields(spec.actions.shape))


AnyShape: TypeAlias = TableShape | QueueShape | PaceShape


def table_shapes(config: RunConfig, inline: bool) -> list[TableShape | QueueShape]:
  """The server's tables of transitions, in layout order; the arguments are those of `pace_shape`.

  Only the queue of a run whose learner has its own memory ever makes a writer wait.
  """
  replay = config.replay
  if replay.sampling == "memory":
    waits = replay.environment_steps_per_update is not None and not inline
    steps = replay.insert_tolerance_steps if waits else replay.capacity_of(replay.default)
    return [QueueShape(replay.default.name, steps, waits)]
  events = [_shape(replay, table, min_size=1) for table in replay.tables]
  return [_shape(replay, replay.default, replay.default.min_size), *events]


def pace_shape(config: RunConfig, inline: bool) -> PaceShape:
  """How the server ties collecting to learning.

  Args:
    config: of the run.
    inline: whether the run is inline, and counts for itself.
  """
  ratio, block = config.replay.environment_steps_per_update, config.learner.updates_per_block
  # A learner with its own memory reads as many transitions as its next block needs, and so keeps the ratio itself.
  if ratio is None or inline or config.replay.sampling == "memory":
    return PaceShape()
  # The learner takes whole blocks and draws one ahead, so a tighter limit would stop both sides.
  tolerance = max(float(config.replay.insert_tolerance_steps), 3.0 * block * ratio)
  return PaceShape(ratio, block, tolerance, config.replay.default.min_size)


def all_shapes(config: RunConfig, inline: bool) -> list[AnyShape]:
  """What a checkpoint's tables and a config's must have in common; the arguments are those of `pace_shape`."""
  return [*table_shapes(config, inline), pace_shape(config, inline)]


def first_difference(old: Sequence[AnyShape], new: Sequence[AnyShape]) -> str:
  """The first difference between a checkpoint's tables and a config's, as part of a sentence; empty if there is none.

  Args:
    old: tables of the checkpoint.
    new: tables of the config, with the same `replay.sampling`; one whose name is not in `old` is ignored.
  """
  asked = {shape.name: shape for shape in new}
  for shape in old:
    other = asked.get(shape.name, shape)
    compared = [field.name for field in dataclasses.fields(shape) if field.name in _FIELD_NAMES]
    for name in compared:
      called, keys = _FIELD_NAMES[name]
      has, wants = getattr(shape, name), getattr(other, name)
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


def _shape(replay: ReplayConfig, table: TableSpec, min_size: int) -> TableShape:
  exponent = replay.priority.exponent if table.selector == "prioritized" else None
  return TableShape(table.name, table.selector, exponent, replay.capacity_of(table), min_size)

"""The sizes of a memory: what a config asks for, and the arrays and bytes that this takes."""

import dataclasses
import math
from typing import Any

import numpy as np

from configs import RunConfig, UserError
from configs.free_memory import available_bytes, format_bytes
from replay_memory import kernels
from replay_memory.kernels import NONE, Memory
from replay_memory.pages import zeros

# Episodes without a stored row that are remembered, so that a row that comes again is known, and gaps that are.
SPARE_RECORDS = 4_096
MOST_GAPS = 4_096
# Levels of the largest tree of sums, of 8^11 leaves.
_MOST_LEVELS = 11

_SELECTORS = {
  "uniform": kernels.UNIFORM,
  "prioritized": kernels.PRIORITIZED,
  "ranked": kernels.PRIORITIZED,
  "fifo": kernels.FIFO,
  "lifo": kernels.LIFO,
}


@dataclasses.dataclass(frozen=True)
class FeedingEvent:
  """An event that feeds a table.

  Attributes:
    bit: its place in the config.
    table: index of its table.
    history: tau in steps.
  """

  bit: int
  table: int
  history: int


@dataclasses.dataclass(frozen=True)
class Plan:
  """The sizes of a memory.

  Attributes:
    names: of the tables, in layout order.
    selectors: of the tables, as in `TableSpec`.
    exponents: alpha of each prioritised table, ranked ones included, 1 with ReaPER, whose criteria are weights as they are; None
      for any other.
    capacities: of the tables, in rows.
    events: those that feed tables, in the config's order.
    longest_history: of these events, in steps; at least 1. With `whole_episodes` not below the default table's capacity.
    slots: rows that can be stored: those of full tables that share none, and the windows of open episodes.
    width: words of a row.
    spare_records: episodes without a stored row that are remembered.
    most_gaps: gaps that are remembered.
    tracks_episodes: whether it is noted which episodes change, for `Reliability`.
    tracks_extremes: whether the largest and the smallest weight of each prioritised table are known.
    whole_episodes: whether the tables take an episode when it is over, and the default table lets it go as a whole.
  """

  names: tuple[str, ...]
  selectors: tuple[str, ...]
  exponents: tuple[float | None, ...]
  capacities: tuple[int, ...]
  events: tuple[FeedingEvent, ...]
  longest_history: int
  slots: int
  width: int
  spare_records: int = SPARE_RECORDS
  most_gaps: int = MOST_GAPS
  tracks_episodes: bool = False
  tracks_extremes: bool = False
  whole_episodes: bool = False

  @property
  def bytes(self) -> int:
    """What the arrays take when all of them are in use; the system gives most of it only as the memory fills."""
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in _specs(self).values())

  @property
  def row_bytes(self) -> int:
    """What the stored rows alone take; files keep them for a learner that is started again, and checkpoints share those."""
    return 4 * self.width * self.slots


def make_plan(config: RunConfig, width: int, open_episodes: int | None = None) -> Plan:
  """The plan of a run's memory.

  Args:
    config: of the run.
    width: words of its rows (`RowCodec.width`).
    open_episodes: episodes whose longest history is kept besides the tables; with more at once, those without a new row for
      longest lose what no table holds. None for two for each environment of the config.
  """
  replay = config.replay
  names = [table.name for table in replay.all_tables]
  capacities = tuple(replay.capacity_of(table) for table in replay.all_tables)
  if open_episodes is None:
    open_episodes = 2 * max(1, config.worker_count) * config.actor.environments
  priority = replay.priority
  # A criterion of ReaPER's is a weight as it is.
  exponent = 1.0 if priority.criterion == "reaper" else priority.exponent
  whole_episodes = replay.unit == "episodes"
  # Open episodes that are kept whole may be many and long: there is room for as many rows as the table has, twice.
  windows = 2 * capacities[0] if whole_episodes else max(1, open_episodes) * config.max_history
  return Plan(
    names=tuple(names),
    selectors=tuple(table.selector for table in replay.all_tables),
    exponents=tuple(exponent if table.draws_by_priority else None for table in replay.all_tables),
    capacities=capacities,
    events=tuple(
      FeedingEvent(bit, names.index(event.table), event.history)
      for bit, event in enumerate(config.events)
      if event.table is not None
    ),
    longest_history=max(config.max_history, capacities[0]) if whole_episodes else config.max_history,
    slots=sum(capacities) + windows,
    width=width,
    tracks_episodes=priority.criterion == "reaper",
    tracks_extremes=priority.criterion == "reaper" or priority.normalize == "buffer",
    whole_episodes=whole_episodes,
  )


def check_fit(plan: Plan, beside: int = 0) -> str:
  """A sentence that says how much memory the plan takes, and how much of the disk its rows.

  Args:
    plan: of the learner's memory.
    beside: bytes that rules take which follow its rows, when it is full.

  Raises:
    UserError: this machine does not have that much.
  """
  available, needed = available_bytes(), plan.bytes + beside
  if needed > available:
    raise UserError(
      f"The learner's own memory would take up to {format_bytes(needed)} when full, and this machine has "
      f"{format_bytes(available)} left: lower replay.capacity (or the tables' own capacities)."
    )
  return (
    f"Full, the learner's own memory takes {format_bytes(needed)} ({format_bytes(available)} are free), and its rows take "
    f"{format_bytes(plan.row_bytes)} of the disk."
  )


def allocate(plan: Plan) -> Memory:
  """The arrays of an empty memory.

  Raises:
    MemoryError: the machine does not have as much memory.
  """
  # Zeros take no memory before they are written over.
  memory = Memory(**{name: zeros(shape, dtype) for name, (shape, dtype) in _specs(plan).items()})
  memory.ends.fill(NONE)
  memory.gaps.record.fill(NONE)
  memory.longest[0] = plan.longest_history
  memory.whole[0] = plan.whole_episodes
  for index, event in enumerate(plan.events):
    memory.events[index] = (event.bit, event.table, event.history)
  tables = memory.tables
  tables.selector[:] = [_SELECTORS[selector] for selector in plan.selectors]
  tables.capacity[:] = plan.capacities
  tables.start[1:] = np.cumsum(plan.capacities)[:-1]
  leaf_start = node_start = 0
  for table, levels in enumerate(_levels(plan)):
    tables.levels[table] = max(0, len(levels) - 1)
    tables.leaf_start[table] = leaf_start
    leaf_start += sum(levels[:1])
    for level, nodes in enumerate(levels[1:]):
      memory.node_start[table, level] = node_start
      node_start += nodes
  return memory


def _specs(plan: Plan) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
  """Shape and dtype of every array of `Memory`, by its name."""
  slots, tables, records = plan.slots, len(plan.capacities), plan.slots + plan.spare_records
  int32, int64, float64 = np.dtype("int32"), np.dtype("int64"), np.dtype("float64")
  leaves = sum(sum(levels[:1]) for levels in _levels(plan))
  nodes = sum(sum(levels[1:]) for levels in _levels(plan))
  return {
    "words": ((slots, plan.width), int32),
    "rows": ((slots,), kernels.ROW),
    "free": ((slots,), int32),
    "episodes": ((records,), kernels.EPISODE),
    "ends": ((kernels.LISTS, 2), int32),
    "touched": ((records if plan.tracks_episodes else 0,), int32),
    "buckets": ((1 << (2 * records - 1).bit_length(),), int32),
    "gaps": ((plan.most_gaps,), kernels.GAP),
    "tables": ((tables,), kernels.TABLE),
    "ring": ((sum(plan.capacities),), int32),
    "position": ((slots, tables), int32),
    "leaves": ((leaves,), float64),
    "nodes": ((nodes,), float64),
    "largest": ((nodes if plan.tracks_extremes else 0,), float64),
    "smallest": ((nodes if plan.tracks_extremes else 0,), float64),
    "stamps": ((nodes,), int64),
    "node_start": ((tables, _MOST_LEVELS), int64),
    "events": ((len(plan.events),), kernels.EVENT),
    "longest": ((1,), int64),
    "whole": ((1,), int64),
    "counts": ((kernels.COUNTS,), int64),
  }


def _levels(plan: Plan) -> list[list[int]]:
  """The padded lengths of each table's tree, leaves first, up to the root; empty for a table that is not prioritised."""
  return [
    [] if exponent is None else tree_of(capacity)
    for exponent, capacity in zip(plan.exponents, plan.capacities, strict=True)
  ]


def tree_of(leaves: int) -> list[int]:
  """The length of each level of a tree of `kernels.FAN_OUT` children, leaves first, padded to whole groups; the root's is 1."""
  lengths: list[int] = []
  while not lengths or leaves > 1:
    groups = math.ceil(leaves / kernels.FAN_OUT)
    lengths.append(groups * kernels.FAN_OUT)
    leaves = groups
  return [*lengths, 1]

"""The replay memory: rows in, drawn rows out (SSET, Algorithm 1, without a server)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from configs import UserError
from replay_memory import kernels
from replay_memory.kernels import NONE, Drawn, Incoming
from replay_memory.plan import Plan, allocate
from replay_memory.rule import Rule
from replay_memory.state import RECEIVED, State, live_slots, pack, unpack
from replay_server.contract.codec import Packed, RowCodec
from replay_server.contract.layout import MAX_PRIORITY

# Before the name of a column in the state.
COLUMN = "columns/"
_WHOLE = "whole_episodes"


@dataclasses.dataclass(frozen=True)
class Added:
  """What became of rows that were added.

  Attributes:
    new: rows that went on with their episodes.
    repeated: rows that were known, and were dropped.
    late: rows that filled a gap.
    gaps: runs of steps that were skipped before one of the rows.
    slots: int64 [rows], the slot of each row; `NONE` for one that was dropped, or that a later one of them has already evicted.
  """

  new: int
  repeated: int
  late: int
  gaps: int
  slots: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Draws:
  """K batches of drawn rows; within a batch they are sorted by table, in layout order.

  Attributes:
    slots: int64 [K, batch], where each row is stored until the next rows are added.
    handles: uint64 [K, batch], names each row for ever: the name of a row that is gone is never another's.
    tables: int64 [K, batch], index of the table that the row was drawn from.
    probabilities: float64 [K, batch], within the table.
    table_sizes: int64 [K, batch].
  """

  slots: npt.NDArray[np.int64]
  handles: npt.NDArray[np.uint64]
  tables: npt.NDArray[np.int64]
  probabilities: npt.NDArray[np.float64]
  table_sizes: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Counts:
  """Counts of all rows received.

  Attributes:
    new: rows that went on with their episodes.
    repeated: rows that were known, and were dropped.
    late: rows that filled a gap.
    gaps: runs of steps that were skipped.
    missing: steps of these runs that have not come since.
    lapses: times that an open episode lost the part of its longest history that no table held, for want of slots.
  """

  new: int
  repeated: int
  late: int
  gaps: int
  missing: int
  lapses: int


class ReplayMemory:
  """Rows by slot, tables as first-in-first-out rings of slots, and episodes as links between rows; for one thread at a time.

  It needs nothing but a stream of rows, and from it makes the tables that an `EventTableAdder` would make on a server. Every row
  enters the default table. A row of step t enters event table i if one of the table's events fired at a step t' of its episode
  with t <= t' < t + tau (SSET, Algorithm 1, lines 10 to 15). When an event fires, the steps of its history that its table was not
  sent before enter in the order of their numbers, so with 1-step rows each table has the server's order. With n-step rows an
  event is known n - 1 steps later: the tables have the same rows, in another order.

  A row is stored while a table holds it, in any table, or an event of its open episode could still reach it. A step that is known
  is dropped; one that comes late is put into its place, and into the event tables of later events on rows that are still stored.

  With `Plan.whole_episodes` the tables get the rows of an episode when it ends, in the order of their numbers, and the default
  table evicts whole episodes, those that ended first. Rows that come after their episode's end are dropped. An episode that has
  had no row while `capacity` others came has ended: it counts as truncated.

  Attributes:
    plan: the sizes.
    arrays: everything it knows, for rules that work on all rows; to be read only.
  """

  def __init__(self, plan: Plan, codec: RowCodec):
    """Makes an empty memory.

    Args:
      plan: the sizes; see `make_plan`.
      codec: of the rows.

    Raises:
      MemoryError: the machine does not have as much memory.
    """
    self.plan = plan
    self._codec = codec
    self.arrays = allocate(plan)
    self._rows: npt.NDArray[np.float32] = self.arrays.words.view(np.float32)
    # Views, as looking a field up takes as long as drawing a small batch.
    tables, rows = self.arrays.tables, self.arrays.rows
    self._filled: npt.NDArray[np.int64] = tables.filled
    self._inserts: npt.NDArray[np.int64] = tables.inserts
    self._draws: npt.NDArray[np.int64] = tables.draws
    self._sequence: npt.NDArray[np.int64] = rows.sequence
    self._exponents = np.array([np.nan if exponent is None else exponent for exponent in plan.exponents])
    self._of_priority_1 = self._new_weights(np.ones(len(plan.names)))
    self._columns: dict[str, tuple[npt.NDArray[Any], Any]] = {}
    self._rules: list[Rule] = []
    self._received = 0

  @property
  def table_names(self) -> Sequence[str]:
    """Names of the tables, in layout order."""
    return self.plan.names

  @property
  def received(self) -> int:
    """Rows received so far, those that were dropped included: the next row's number in the stream."""
    return self._received

  @property
  def stored(self) -> int:
    """Rows stored."""
    counts = self.arrays.counts
    return int(counts[kernels.FRESH_SLOTS] - counts[kernels.FREE_SLOTS])

  @property
  def sizes(self) -> npt.NDArray[np.int64]:
    """Rows in each table, int64 [tables]."""
    return self._filled.copy()

  @property
  def inserts(self) -> npt.NDArray[np.int64]:
    """Rows put into each table so far, int64 [tables]."""
    return self._inserts.copy()

  @property
  def draws(self) -> npt.NDArray[np.int64]:
    """Rows drawn from each table so far, int64 [tables]."""
    return self._draws.copy()

  @property
  def largest_weights(self) -> npt.NDArray[np.float64]:
    """The largest weight in each table, float64 [tables]; 0 where nothing can be drawn by weight. See `Plan.tracks_extremes`."""
    return self._roots(self.arrays.largest)

  @property
  def least_ratios(self) -> npt.NDArray[np.float64]:
    """The least N P of each table's rows, where P is a row's probability in the table and N the table's size, float64 [tables].

    It is 1 for a table that is not prioritised, or in which every weight is 0. A row of weight 0 is never drawn and not counted.
    See `Plan.tracks_extremes`.
    """
    least, totals = self._roots(self.arrays.smallest), self._roots(self.arrays.nodes)
    shares = np.divide(least, totals, out=np.ones(len(totals)), where=totals > 0)
    return np.where(totals > 0, shares * self._filled, 1.0)

  def _roots(self, nodes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The topmost nodes of the tables' trees, float64 [tables]; 0 for a table that has none."""
    levels = self.arrays.tables.levels
    tops = self.arrays.node_start[np.arange(len(levels)), np.maximum(levels - 1, 0)]
    return np.where(levels > 0, nodes[np.where(levels > 0, tops, 0)] if len(nodes) else 0.0, 0.0)

  @property
  def events_in_default(self) -> int:
    """Rows of the default table that an event table also holds."""
    return int(self.arrays.counts[kernels.SHARED])

  @property
  def counts(self) -> Counts:
    """Counts of all rows received."""
    names = (kernels.NEW, kernels.REPEATED, kernels.LATE, kernels.GAPS, kernels.MISSING, kernels.LAPSES)
    return Counts(*(int(self.arrays.counts[name]) for name in names))

  @property
  def bytes(self) -> int:
    """What the memory takes when it is full, columns included."""
    return self.plan.bytes + sum(values.nbytes for values, _ in self._columns.values())

  @property
  def slots(self) -> npt.NDArray[np.int64]:
    """The slots of all stored rows, int64 [stored], in the order in which the rows were received."""
    return live_slots(self.arrays)

  @property
  def sequences(self) -> npt.NDArray[np.int64]:
    """The numbers of the stored rows in the stream, int64 [stored], ascending."""
    sequences: npt.NDArray[np.int64] = self._sequence[self.slots]
    return sequences

  def add(
    self,
    rows: Packed,
    priorities: npt.ArrayLike | None = None,
    first: int | None = None,
  ) -> Added:
    """Adds rows in the order in which they were received.

    Args:
      rows: float32 [n, width], packed.
      priorities: float [tables], of new rows in each prioritised table, from 0 to `MAX_PRIORITY`; None for 1 everywhere.
      first: number of the first row in the stream, not below `received`; None for `received`.

    Raises:
      UserError: an episode is longer than a default table of whole ones.
    """
    if rows.ndim != 2 or rows.shape[1] != self.plan.width or rows.dtype != np.float32:
      raise ValueError(f"rows must be float32 [n, {self.plan.width}] and are {rows.dtype} {list(rows.shape)}")
    first = self._received if first is None else first
    if first < self._received:
      raise ValueError(f"row {first} was received before: the next is {self._received}")
    weights = self._of_priority_1 if priorities is None else self._new_weights(np.asarray(priorities, np.float64))
    incoming = self._incoming(rows, first, weights)
    self._check_lengths(incoming.step)
    before = self.counts
    kernels.add_rows(self.arrays, incoming)
    self._received = first + len(rows)
    now = self.counts
    slots = incoming.slot.astype(np.int64)
    slots[self._sequence[slots] != incoming.sequence] = NONE
    stored = slots[slots != NONE]
    for values, initial in self._columns.values():
      values[stored] = initial
    for rule in self._rules:
      rule.added(stored)
    return Added(
      now.new - before.new, now.repeated - before.repeated, now.late - before.late, now.gaps - before.gaps, slots
    )

  def _check_lengths(self, steps: npt.NDArray[np.int32]) -> None:
    capacity = self.plan.capacities[kernels.DEFAULT]
    if self.plan.whole_episodes and len(steps) and steps.max() >= capacity:
      raise UserError(
        f"An episode has more than the {capacity:,} transitions that table {self.plan.names[kernels.DEFAULT]!r} holds, and "
        "replay.unit is 'episodes', which stores whole ones: raise replay.capacity, or limit the episodes' length."
      )

  def skip_to(self, number: int) -> None:
    """Leaves out the rows up to this number in the stream, which is not below `received`."""
    self._received = max(self._received, number)

  def _incoming(self, rows: Packed, first: int, weights: npt.NDArray[np.float64]) -> Incoming:
    # To Numba read-only arrays are another type, for which it would compile the kernel anew.
    rows = np.require(rows, requirements=("C", "W"))
    fields = {field.name: field for field in self._codec.fields}

    def values(name: str) -> npt.NDArray[Any]:
      field = fields[name]
      words = np.ascontiguousarray(rows[:, field.offset : field.offset + field.words])
      return words.view(field.dtype)[:, 0]

    # The last row of an episode covers one step, whatever the rows' windows; the ones before it have the same flags.
    is_last = values("steps") == 1
    ended = np.where(values("terminated"), kernels.TERMINATED, np.where(values("truncated"), kernels.TRUNCATED, 0))
    return Incoming(
      words=rows.view(np.int32),
      sequence=np.arange(first, first + len(rows)),
      episode=np.ascontiguousarray(values("episode")),
      step=np.ascontiguousarray(values("step")),
      events=np.ascontiguousarray(values("events")),
      ended=np.where(is_last, ended, kernels.OPEN).astype(np.int8),
      weights=weights,
      slot=np.empty(len(rows), np.int32),
    )

  def _new_weights(self, priorities: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """`_weights` for a priority of each table."""
    return self._weights(np.arange(len(self.plan.names)), priorities)

  def _weights(self, tables: npt.NDArray[np.int64], priorities: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """p^alpha for each table's alpha; 0 for a priority of 0, whatever alpha is, as in Reverb; 0 where there is no alpha."""
    if not ((priorities >= 0) & (priorities <= MAX_PRIORITY)).all():
      raise ValueError(f"priorities must be numbers from 0 to {MAX_PRIORITY:g}")
    exponents = self._exponents[tables]
    return np.where((priorities > 0) & ~np.isnan(exponents), priorities**exponents, 0.0)

  def draw(self, quotas: npt.NDArray[np.int64], rng: np.random.Generator) -> Draws:
    """Draws K batches, with replacement, by each table's selector; all from the tables as they are.

    Args:
      quotas: int64 [K, tables], number of rows that each batch has from each table; each batch has the same sum.
      rng: gives one number for each row.
    """
    sums = quotas.sum(axis=1)
    if len(sums) > 1 and (sums != sums[0]).any():
      raise ValueError(f"batches must have one size, and have {sums.tolist()}")
    if not self._filled.all():
      lacking = np.flatnonzero((quotas.sum(axis=0) > 0) & (self._filled == 0))
      if len(lacking):
        raise ValueError(f"nothing can be drawn from {self.plan.names[lacking[0]]!r}, which is empty")
    rows = int(sums.sum())
    drawn = Drawn(
      slot=np.empty(rows, np.int64),
      handle=np.empty(rows, np.int64),
      table=np.empty(rows, np.int64),
      probability=np.empty(rows),
      size=np.empty(rows, np.int64),
    )
    kernels.draw(self.arrays, np.ascontiguousarray(quotas, np.int64), rng.random(rows), drawn)
    shape = (len(quotas), -1)
    return Draws(
      slots=drawn.slot.reshape(shape),
      handles=drawn.handle.view(np.uint64).reshape(shape),
      tables=drawn.table.reshape(shape),
      probabilities=drawn.probability.reshape(shape),
      table_sizes=drawn.size.reshape(shape),
    )

  def take(self, slots: npt.NDArray[np.int64]) -> Packed:
    """Copies of the rows in these slots, float32 [..., width], for int64 [...]."""
    return self._rows.take(slots, axis=0)

  def random_slots(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The slots of rows drawn uniformly from all that are stored, with replacement, int64 [count]; of at least one row."""
    if not self.stored:
      raise ValueError("no row is stored")
    sequence, fresh = self._sequence, int(self.arrays.counts[kernels.FRESH_SLOTS])
    slots = rng.integers(fresh, size=count)
    # Slots that are free for now are few, so drawing again is cheaper than a list of the others.
    while len(free := np.flatnonzero(sequence[slots] == NONE)):
      slots[free] = rng.integers(fresh, size=len(free))
    return slots

  def next_steps(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The slot of the next step of each row's episode, int64 [...]; `NONE` where that step is not stored."""
    following, step = self.arrays.rows.following, self.arrays.rows.step
    next_slots = following[slots].astype(np.int64)
    return np.where((next_slots != NONE) & (step[next_slots] == step[slots] + 1), next_slots, NONE)

  def slots_of(self, handles: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The slot of each row, int64 [...]; `NONE` for one that is no longer stored."""
    slots, sequences = self._split(handles)
    return np.where(self._sequence[slots] == sequences, slots, NONE)

  def holds(self, handles: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which tables hold each row, bool [..., tables]; none hold one that is no longer stored."""
    slots, sequences = self._split(handles)
    stored = self._sequence[slots] == sequences
    held: npt.NDArray[np.bool_] = (self.arrays.position[slots] > 0) & stored[..., None]
    return held

  def handles_of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The handle of each row, uint64 [...], for the slots of stored rows, int64 [...]."""
    handles: npt.NDArray[np.int64] = self._sequence[slots] * self.plan.slots + slots
    return handles.view(np.uint64)

  def _split(self, handles: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    sequences, slots = np.divmod(handles.view(np.int64), self.plan.slots)
    return slots, sequences

  def set_priorities(
    self, handles: npt.NDArray[np.uint64], tables: npt.NDArray[np.int64], priorities: npt.NDArray[np.float64]
  ) -> int:
    """Sets the priorities of rows in prioritised tables; the later one counts where a row is named twice.

    Args:
      handles: uint64 [n], of the rows; one that its table no longer holds is passed over.
      tables: int64 [n], the prioritised table in which each has the priority.
      priorities: float64 [n], from 0 to `MAX_PRIORITY`.

    Returns:
      How many were set.
    """
    if np.isnan(self._exponents[tables]).any():
      raise ValueError("priorities can be set in prioritised tables alone")
    weights = self._weights(tables, priorities)
    places = np.empty(len(handles), np.int64)
    return kernels.set_weights(self.arrays, np.ascontiguousarray(handles).view(np.int64), tables, weights, places)

  def set_all_priorities(self, table: int, priorities: npt.NDArray[np.float64]) -> None:
    """Sets the priorities of all rows of a prioritised table.

    Args:
      table: index of the table.
      priorities: float64 [size], from 0 to `MAX_PRIORITY`, from the oldest row to the newest.
    """
    if np.isnan(self._exponents[table]) or len(priorities) != self._filled[table]:
      raise ValueError(
        f"there are {len(priorities)} priorities for the {self._filled[table]} rows of a prioritised table"
      )
    kernels.set_all_weights(self.arrays, table, self._weights(np.array(table), priorities))

  def add_column(
    self, name: str, dtype: npt.DTypeLike, initial: Any, place: npt.NDArray[Any] | None = None
  ) -> npt.NDArray[Any]:
    """Adds a value for each row, which belongs to the state.

    Args:
      name: new in this memory.
      dtype: of the value.
      initial: value of a row when it is added.
      place: [slots] of this dtype, where the values are kept; None for an array of their own.

    Returns:
      [slots], which the caller may change.
    """
    if name in self._columns:
      raise ValueError(f"there is a column {name!r} already")
    values = np.empty(self.plan.slots, dtype) if place is None else place
    values[:] = initial
    self._columns[name] = (values, initial)
    return values

  def follow_with(self, rule: Rule) -> None:
    """Lets a rule follow the rows from now on."""
    self._rules.append(rule)

  def episode_of(self, slot: int) -> npt.NDArray[np.int64]:
    """The slots of all stored rows of a row's episode, int64 [rows], in the order of their steps."""
    rows, episodes = self.arrays.rows, self.arrays.episodes
    slots, at = [], int(episodes.head[rows.record[slot]])
    while at != NONE:
      slots.append(at)
      at = int(rows.following[at])
    return np.array(slots, np.int64)

  def contents(self, table: int) -> npt.NDArray[np.int64]:
    """The slots of a table's rows, int64 [size], from the oldest to the newest."""
    tables = self.arrays.tables
    start, capacity = tables.start[table], tables.capacity[table]
    places = (tables.oldest[table] + np.arange(tables.filled[table])) % capacity
    return _copied(self.arrays.ring[start + places])

  def places(self, table: int) -> npt.NDArray[np.int32]:
    """The slots of a table's rows in any order, int32 [size]; a view where the rows are next to each other in the ring."""
    tables, ring = self.arrays.tables, self.arrays.ring
    start, capacity = int(tables.start[table]), int(tables.capacity[table])
    oldest, filled = int(tables.oldest[table]), int(tables.filled[table])
    if filled == capacity:
      return ring[start : start + capacity]
    if oldest + filled <= capacity:
      return ring[start + oldest : start + oldest + filled]
    end = oldest + filled - capacity
    return np.concatenate([ring[start + oldest : start + capacity], ring[start : start + end]])

  def field(self, name: str, codec: RowCodec) -> npt.NDArray[Any]:
    """A scalar field of all slots, [slots], as a view of the rows."""
    field = next(field for field in codec.fields if field.name == name)
    if field.words != 1 or field.shape:
      raise ValueError(f"the field {name!r} is no scalar of one word")
    return self.arrays.words.view(field.dtype)[:, field.offset]

  def weights(self, table: int) -> npt.NDArray[np.float64]:
    """The weights of a prioritised table's rows, float64 [size], from the oldest to the newest."""
    tables = self.arrays.tables
    places = (tables.oldest[table] + np.arange(tables.filled[table])) % tables.capacity[table]
    weights: npt.NDArray[np.float64] = self.arrays.leaves[tables.leaf_start[table] + places]
    return weights

  def state(self) -> State:
    """Everything but the rows, as copies: what `restore` needs besides the rows of `sequences`."""
    slots = live_slots(self.arrays)
    return {
      RECEIVED: np.array(self._received),
      "exponents": self._exponents.copy(),
      _WHOLE: np.array(self.plan.whole_episodes),
      **pack(self.arrays),
      **{COLUMN + name: values[slots] for name, (values, _) in self._columns.items()},
    }

  def restore(self, state: State, rows: Packed, found: npt.NDArray[np.bool_]) -> int:
    """Restores what `state` returned into a newly made memory, whose columns were added; handles are then others.

    Args:
      state: of a memory with the same tables. Other capacities are possible: a table keeps its newest rows.
      rows: float32 [n, width], those of the state's `sequences`, in their order.
      found: bool [n], False for a row that is lost; it is left out of everything.

    Returns:
      How many rows were restored.

    Raises:
      UserError: the state is of other tables, or of another `Plan.whole_episodes`.
    """
    if self._received:
      raise ValueError("only a memory that has received nothing can be restored")
    _check_tables(state["exponents"], self._exponents)
    # A state from before there were whole episodes does not say.
    if bool(state.get(_WHOLE, False)) != self.plan.whole_episodes:
      before, now = ("steps", "episodes") if self.plan.whole_episodes else ("episodes", "steps")
      raise UserError(
        f"The learner's checkpoint is of a run whose replay.unit is {before!r}, and the config's is {now!r}: resume with the one "
        "that the run had."
      )
    slots = unpack(self.arrays, state, found)
    kept = np.flatnonzero(slots != NONE)
    self._rows[: len(kept)] = rows[kept]
    for name, (values, _) in self._columns.items():
      if COLUMN + name in state:
        values[: len(kept)] = state[COLUMN + name][kept]
    self._received = int(state[RECEIVED])
    for rule in self._rules:
      rule.restored()
    return len(kept)


def _copied(values: Any) -> npt.NDArray[np.int64]:
  return np.array(values, np.int64)


def _check_tables(before: npt.NDArray[np.float64], now: npt.NDArray[np.float64]) -> None:
  if len(before) != len(now):
    raise UserError(
      f"The learner's checkpoint is of {len(before)} tables, and the config has {len(now)}: resume with the tables that "
      "the run had."
    )
  if not np.array_equal(before, now, equal_nan=True):
    raise UserError(
      "The learner's checkpoint has other priority exponents than the config, or other tables that draw by priority: resume with "
      "the selectors and the replay.priority.exponent that the run had."
    )

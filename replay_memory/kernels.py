"""The memory's arrays, and the functions that work on them, which numba compiles.

Words:
- A *slot* is the place of one row. A *record* is the place of one episode, a *node* that of one gap.
- A row is *held* while a table has it. An open episode's *window* is its last `max_history` steps, which events to come can still
  reach. A slot is free again when its row is neither held nor in a window.
- A *place* is an index in a table's ring. A row keeps its place for as long as the table has it.
- In a memory of *whole* episodes the tables take an episode's rows when it is over, and the default table lets them go together.

Everything that refers to something which may not exist has `NONE` there, except where 0 stands for it, so that the arrays of a
large memory take no pages before they are used: `position` and `buckets` hold one more than what they mean.

Structures, constants and functions are in one file because of numba's cache; see `configs.compiling`. They are plain Python too,
and give the same results without the compiler.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from configs.compiling import helper, kernel

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Records: TypeAlias = Any  # np.recarray: an array of structures, whose fields are attributes.

NONE = -1

# A number as int64: numba compiles a function for each type that it is called with, and each constant is a type of its own.
_whole: Any = np.int64

# Table 0 is the default table.
DEFAULT = 0

# States of an episode. A lapsed one is open, but its window is no longer kept.
OPEN, TERMINATED, TRUNCATED, LAPSED = range(4)

# Selectors.
UNIFORM, PRIORITIZED, FIFO, LIFO = range(4)

# The lists of records, each from the oldest to the newest: open episodes by their last row, episodes without a stored row by when
# they lost it, and lapsed ones. Any other episode is `UNLISTED`.
OPEN_LIST, EMPTY_LIST, LAPSED_LIST, UNLISTED = range(4)
LISTS = 3
_OLDEST, _NEWEST = range(2)

# In the place of an episode's first changed step: no step changed; or none did, but what all of them are divided by.
UNTOUCHED = 2**31 - 1
_RESCALED = UNTOUCHED - 1

# Sizes of the tables for powers of omega: a float64 lies between 2^-1100 and 2^1100.
MOST_BINARY_EXPONENT = 1_100
STEPS = 64

# Children of a node in a tree. Eight take one line of a cache; draws and updates took longer with 16, 32 and 64.
FAN_OUT = 8
FAN_OUT_BITS = 3

# Indices of `Memory.counts`.
(
  FREE_SLOTS,  # Given back; the last of them is used first.
  FRESH_SLOTS,  # Slots that were used at least once.
  FRESH_RECORDS,  # Records that were used at least once.
  EMPTY_RECORDS,  # Records in the list of those without a stored row.
  GAP_NODES,  # Given out so far; they are used in turn.
  NEW,
  REPEATED,
  LATE,
  GAPS,
  MISSING,  # Steps of noted gaps that have not come late.
  LAPSES,
  SHARED,  # Rows that the default table and an event table hold.
  STAMP,  # Of the latest call that set weights.
  TOUCHED,  # Records in `touched`.
  COUNTS,
) = range(15)


# What is stored of each row besides its words, by slot.
ROW = np.dtype(
  [
    (
      "sequence",
      "int64",
    ),  # The row's number in the stream of all rows received; `NONE` for a slot that was given back.
    ("sent", "int64"),  # Mask of the tables that it was put into, even if they have evicted it since.
    ("previous", "int32"),  # Slot of the stored row before it in its episode.
    ("following", "int32"),  # Slot of the stored row after it.
    ("record", "int32"),  # Its episode's.
    ("step", "int32"),  # t.
    ("events", "int32"),  # Mask of the events that fired on it.
    ("holders", "int8"),  # Number of tables that hold it.
  ],
  align=True,
)

# What is known of each episode, by record. There are more records than slots: the difference is how many episodes without a
# stored row are remembered, so that rows which come again are known.
EPISODE = np.dtype(
  [
    ("identity", "int64"),  # The episode's id.
    ("head", "int32"),  # Slot of its first stored row.
    ("tail", "int32"),  # Slot of its last stored row.
    ("window", "int32"),  # Slot of the first stored row in its window; `NONE` if the episode is not open.
    ("last", "int32"),  # The largest step received.
    ("stored", "int32"),  # Number of stored rows.
    ("gap", "int32"),  # Node of its latest gap.
    ("older", "int32"),  # The record before it in its list.
    ("newer", "int32"),  # The record after it.
    (
      "changed",
      "int32",
    ),  # The first step that changed since `refresh`; `UNTOUCHED` for a record that is not in `touched`.
    ("state", "int8"),  # `OPEN`, `TERMINATED`, `TRUNCATED` or `LAPSED`.
    ("listed", "int8"),  # `OPEN_LIST`, `EMPTY_LIST`, `LAPSED_LIST` or `UNLISTED`.
  ],
  align=True,
)

# A run of steps that were skipped, by node. The latest are known: a new one takes the node of the oldest.
GAP = np.dtype(
  [
    ("first", "int32"),  # First missing step.
    ("last", "int32"),  # Last missing step.
    ("record", "int32"),  # Of the episode; `NONE` for a node that is not in use.
    ("next", "int32"),  # Node of an earlier gap of the episode.
  ]
)

# A table: a ring of slots and, if it is prioritised, a tree of sums.
TABLE = np.dtype(
  [
    ("selector", "int64"),  # `UNIFORM`, `PRIORITIZED`, `FIFO` or `LIFO`.
    ("capacity", "int64"),
    ("start", "int64"),  # Where its ring begins.
    ("oldest", "int64"),  # Place of the oldest row; the others follow, and after the last place comes the first.
    ("filled", "int64"),  # Rows in it.
    ("inserts", "int64"),  # Rows put into it so far.
    ("added_up", "int64"),  # Inserts whose weights its tree has taken in.
    ("draws", "int64"),  # Rows drawn from it so far.
    ("levels", "int64"),  # Levels of its tree above the leaves; 0 for a table that is not prioritised.
    ("leaf_start", "int64"),  # Where its leaves begin.
  ]
)

# An event that feeds a table.
EVENT = np.dtype(
  [
    ("bit", "int64"),  # Its bit in a row's mask.
    ("table", "int64"),  # Index of its table.
    ("history", "int64"),  # tau in steps.
  ]
)


class Memory(NamedTuple):
  """All arrays of a memory.

  The leaves of a prioritised table's tree are its rows' weights, by place. A node is the sum of its `FAN_OUT` children, always
  added anew in the same order and never corrected by a difference, so that it is exactly what a fresh tree would hold. Each level
  is padded with zeros to whole groups of children.

  Attributes:
    words: int32 [slots, width], the rows' bits.
    rows: `ROW` [slots].
    free: int32 [slots], a stack of free slots.
    episodes: `EPISODE` [records].
    ends: int32 [3, 2], the oldest and the newest record of each list.
    touched: int32 [records], those of which a row came, went or changed since `refresh`; empty in a memory that does not ask.
    buckets: int32 [power of two], hash table of record + 1 with linear probing; 0 for none.
    gaps: `GAP` [nodes].
    tables: `TABLE` [tables].
    ring: int32 [sum of capacities], slots.
    position: int32 [slots, tables], the row's place in each table + 1; 0 if the table does not hold it.
    leaves: float64 [...], of all trees.
    nodes: float64 [...], of all trees.
    largest: float64 [...], for each node the largest weight below it; empty in a memory that does not ask.
    smallest: float64 [...], likewise the smallest weight above 0; infinity or 0 if there is none.
    stamps: int64 [...], for each node the latest call of `set_weights` that added it anew.
    node_start: int64 [tables, 11], where each level of nodes begins, the lowest first.
    events: `EVENT` [events].
    longest: int64 [1], the longest history; at least 1. With whole episodes not below the default table's capacity.
    whole: int64 [1], 1 where the tables take whole episodes, else 0.
    counts: int64 [COUNTS].
  """

  words: Int32
  rows: Records
  free: Int32
  episodes: Records
  ends: Int32
  touched: Int32
  buckets: Int32
  gaps: Records
  tables: Records
  ring: Int32
  position: Int32
  leaves: Float64
  nodes: Float64
  largest: Float64
  smallest: Float64
  stamps: Int64
  node_start: Int64
  events: Records
  longest: Int64
  whole: Int64
  counts: Int64


class Incoming(NamedTuple):
  """Rows to be added.

  Attributes:
    words: int32 [n, width], their bits.
    sequence: int64 [n], their numbers in the stream.
    episode: int64 [n].
    step: int32 [n].
    events: int32 [n].
    ended: int8 [n], how the row ends its episode: `TERMINATED`, `TRUNCATED`, or `OPEN` if it does not.
    weights: float64 [tables], the weight of a new row in each prioritised table.
    slot: int32 [n], is set to the slot of each row; `NONE` where the row was dropped.
  """

  words: Int32
  sequence: Int64
  episode: Int64
  step: Int32
  events: Int32
  ended: Int8
  weights: Float64
  slot: Int32


class Drawn(NamedTuple):
  """Is set to the rows that were drawn, batch by batch, each sorted by table.

  Attributes:
    slot: int64 [n].
    handle: int64 [n], see `handle_of`.
    table: int64 [n].
    probability: float64 [n], within the table.
    size: int64 [n], of the table.
  """

  slot: Int64
  handle: Int64
  table: Int64
  probability: Float64
  size: Int64


class Reliability(NamedTuple):
  """What ReaPER's criteria are made of (Pleiss et al., Algorithm 2).

  Attributes:
    error: float64 [slots], delta of each row.
    power: float64 [slots], delta^alpha.
    part: float64 [slots], prefix^omega delta^alpha, where prefix is the sum of delta from the first stored row of the episode to
      this one: the criterion but for its denominator, as of the last `refresh`.
    total: float64 [...], a tree whose leaves are each episode's sum of delta, by record, and whose nodes are the largest below.
    peak: float64 [...], likewise of each episode's largest delta.
    start: int64 [levels], where each level of these two trees begins, leaves first.
    work: int64 [2, nodes], room for the nodes of the tables' trees whose children changed.
    scales: float64 [2 * `MOST_BINARY_EXPONENT`], (2^e)^omega, from the least e on; see `_to_omega`.
    steps: float64 [3, `STEPS`], of each step from 1/2 to 1 its reciprocal, its power omega, and in the third row the first
      coefficients of the binomial series of omega.
  """

  error: Float64
  power: Float64
  part: Float64
  total: Float64
  peak: Float64
  start: Int64
  work: Int64
  scales: Float64
  steps: Float64


@helper
def _list(memory: Memory, record: int) -> None:
  """Makes a record the newest of the list that it says it is in."""
  episodes = memory.episodes
  which = episodes.listed[record]
  newest = memory.ends[which, _NEWEST]
  episodes.older[record] = newest
  episodes.newer[record] = NONE
  if newest == NONE:
    memory.ends[which, _OLDEST] = record
  else:
    episodes.newer[newest] = record
  memory.ends[which, _NEWEST] = record
  if which == EMPTY_LIST:
    memory.counts[EMPTY_RECORDS] += 1


@helper
def _unlist(memory: Memory, record: int) -> None:
  """Takes a record out of its list, if it is in one."""
  episodes = memory.episodes
  which = episodes.listed[record]
  if which == UNLISTED:
    return
  older, newer = episodes.older[record], episodes.newer[record]
  if older == NONE:
    memory.ends[which, _OLDEST] = newer
  else:
    episodes.newer[older] = newer
  if newer == NONE:
    memory.ends[which, _NEWEST] = older
  else:
    episodes.older[newer] = older
  episodes.listed[record] = UNLISTED
  if which == EMPTY_LIST:
    memory.counts[EMPTY_RECORDS] -= 1


@helper
def _bucket(memory: Memory, episode: int) -> int:
  """The bucket where the search for an episode begins; no product here exceeds int64."""
  mixed = ((episode & 0xFFFFFFFF) + (episode >> 32) * 40503) & 0x7FFFFFFF
  bucket: int = ((mixed * 2654435761) >> 16) & (len(memory.buckets) - 1)
  return bucket


@helper
def _find(memory: Memory, episode: int) -> int:
  """The record of an episode, `NONE` if it is not known."""
  episodes = memory.episodes
  mask = len(memory.buckets) - 1
  at = _bucket(memory, episode)
  while memory.buckets[at] != 0:
    record = memory.buckets[at] - 1
    if episodes.identity[record] == episode:
      found: int = _whole(record)
      return found
    at = (at + 1) & mask
  return NONE


@helper
def _index(memory: Memory, record: int) -> None:
  """Makes a record one that `_find` finds."""
  buckets = memory.buckets
  at = _bucket(memory, memory.episodes.identity[record])
  while buckets[at] != 0:
    at = (at + 1) & (len(buckets) - 1)
  buckets[at] = record + 1


@helper
def _unindex(memory: Memory, record: int) -> None:
  """Makes a record one that `_find` no longer finds; closes the hole in its run of buckets (Knuth, 6.4, Algorithm R)."""
  buckets, identity = memory.buckets, memory.episodes.identity
  mask = len(buckets) - 1
  hole = _bucket(memory, identity[record])
  while buckets[hole] != record + 1:
    hole = (hole + 1) & mask
  at = (hole + 1) & mask
  while buckets[at] != 0:
    home = _bucket(memory, identity[buckets[at] - 1])
    if (at - home) & mask >= (at - hole) & mask:
      buckets[hole] = buckets[at]
      hole = at
    at = (at + 1) & mask
  buckets[hole] = 0


@helper
def _unlink_gap(memory: Memory, node: int) -> None:
  """Takes a node out of its episode's chain of gaps; it is then not in use."""
  gaps, episodes = memory.gaps, memory.episodes
  record = gaps.record[node]
  if episodes.gap[record] == node:
    episodes.gap[record] = gaps.next[node]
  else:
    at = episodes.gap[record]
    while gaps.next[at] != node:
      at = gaps.next[at]
    gaps.next[at] = gaps.next[node]
  gaps.record[node] = NONE


@helper
def _note_gap(memory: Memory, record: int, first: int, last: int) -> None:
  """Notes that steps `first` to `last` of an episode are missing."""
  gaps = memory.gaps
  node = memory.counts[GAP_NODES] % len(gaps)
  memory.counts[GAP_NODES] += 1
  if gaps.record[node] != NONE:
    _unlink_gap(memory, node)
  gaps.first[node] = first
  gaps.last[node] = last
  gaps.record[node] = record
  gaps.next[node] = memory.episodes.gap[record]
  memory.episodes.gap[record] = node


@helper
def _fill_gap(memory: Memory, record: int, step: int) -> bool:
  """Whether a step is in a gap of its episode; if so, it is no longer missing."""
  gaps = memory.gaps
  node = _whole(memory.episodes.gap[record])
  while node != NONE and not gaps.first[node] <= step <= gaps.last[node]:
    node = _whole(gaps.next[node])
  if node == NONE:
    return False
  first, last = _whole(gaps.first[node]), _whole(gaps.last[node])
  if first == last:
    _unlink_gap(memory, node)
  elif step == first:
    gaps.first[node] = step + 1
  else:
    gaps.last[node] = step - 1
    if step != last:
      _note_gap(memory, record, step + 1, last)
  return True


@helper
def _new_record(memory: Memory, episode: int) -> int:
  """A record for an episode; once enough without stored rows are remembered, it is that of the one that lost them first."""
  episodes, counts = memory.episodes, memory.counts
  if counts[EMPTY_RECORDS] < len(episodes) - len(memory.rows):
    record: int = counts[FRESH_RECORDS]
    counts[FRESH_RECORDS] += 1
    episodes.changed[record] = UNTOUCHED
  else:
    record = _whole(memory.ends[EMPTY_LIST, _OLDEST])
    _unlist(memory, record)
    _unindex(memory, record)
    while episodes.gap[record] != NONE:
      _unlink_gap(memory, _whole(episodes.gap[record]))
  episodes.identity[record] = episode
  episodes.head[record] = NONE
  episodes.tail[record] = NONE
  episodes.window[record] = NONE
  episodes.last[record] = NONE
  episodes.state[record] = OPEN
  episodes.stored[record] = 0
  episodes.gap[record] = NONE
  episodes.listed[record] = UNLISTED
  _index(memory, record)
  return record


@helper
def _touch(memory: Memory, record: int, step: int) -> None:
  """Notes that an episode changed, from this step on."""
  episodes, counts = memory.episodes, memory.counts
  if len(memory.touched) == 0:
    return
  if episodes.changed[record] == UNTOUCHED:
    memory.touched[counts[TOUCHED]] = record
    counts[TOUCHED] += 1
  episodes.changed[record] = min(_whole(episodes.changed[record]), _whole(step))


@helper
def _release(memory: Memory, slot: int) -> None:
  """Frees a slot and takes its row out of its episode."""
  rows, episodes, counts = memory.rows, memory.episodes, memory.counts
  record, before, after = _whole(rows.record[slot]), rows.previous[slot], rows.following[slot]
  _touch(memory, record, _whole(rows.step[slot]))
  if before == NONE:
    episodes.head[record] = after
  else:
    rows.following[before] = after
  if after == NONE:
    episodes.tail[record] = before
  else:
    rows.previous[after] = before
  rows.sequence[slot] = NONE
  memory.free[counts[FREE_SLOTS]] = slot
  counts[FREE_SLOTS] += 1
  episodes.stored[record] -= 1
  if episodes.stored[record] == 0:
    _unlist(memory, record)
    episodes.listed[record] = EMPTY_LIST
    _list(memory, record)


@helper
def _close(memory: Memory, record: int) -> None:
  """Lets go the window of an episode that is no longer open."""
  rows, episodes = memory.rows, memory.episodes
  _touch(memory, record, _whole(_RESCALED))
  _unlist(memory, record)
  slot = _whole(episodes.window[record])
  episodes.window[record] = NONE
  while slot != NONE:
    after = _whole(rows.following[slot])
    if rows.holders[slot] == 0:
      _release(memory, slot)
    slot = after


@helper
def _list_lapsed(memory: Memory, record: int) -> None:
  """Lists a lapsed episode that has a stored row."""
  episodes = memory.episodes
  if episodes.listed[record] == UNLISTED and episodes.stored[record] > 0:
    episodes.listed[record] = LAPSED_LIST
    _list(memory, record)


@helper
def _link(memory: Memory, record: int, slot: int) -> None:
  """Puts a row into its place among the stored rows of its episode."""
  rows, episodes = memory.rows, memory.episodes
  if episodes.listed[record] == EMPTY_LIST:
    _unlist(memory, record)
  before, after = episodes.tail[record], NONE
  while before != NONE and rows.step[before] > rows.step[slot]:
    after = before
    before = rows.previous[before]
  rows.previous[slot] = before
  rows.following[slot] = after
  if before == NONE:
    episodes.head[record] = slot
  else:
    rows.following[before] = slot
  if after == NONE:
    episodes.tail[record] = slot
  else:
    rows.previous[after] = slot
  episodes.stored[record] += 1


@helper
def _trim_window(memory: Memory, record: int) -> None:
  """Lets go what is before an open episode's window now."""
  rows, episodes = memory.rows, memory.episodes
  before_window = episodes.last[record] - memory.longest[0]
  first = _whole(episodes.window[record])
  while first != NONE and rows.step[first] <= before_window:
    after = _whole(rows.following[first])
    if rows.holders[first] == 0:
      _release(memory, first)
    first = after
  episodes.window[record] = first


@helper
def _extend_window(memory: Memory, record: int, slot: int) -> None:
  """Takes a row that was linked into its open episode's window, if it belongs there."""
  rows, episodes = memory.rows, memory.episodes
  before_window = episodes.last[record] - memory.longest[0]
  first = _whole(episodes.window[record])
  if first == NONE:  # It is the first row, or the first after the episode lapsed or skipped as many steps.
    first = slot
    while rows.previous[first] != NONE and rows.step[rows.previous[first]] > before_window:
      first = _whole(rows.previous[first])
  elif before_window < rows.step[slot] < rows.step[first]:
    first = slot
  episodes.window[record] = first
  _unlist(memory, record)
  episodes.listed[record] = OPEN_LIST
  _list(memory, record)


@helper
def _drop(memory: Memory, table: int, slot: int) -> None:
  """Takes a row out of a table, and frees its slot if it was the last to need it."""
  rows, episodes, position = memory.rows, memory.episodes, memory.position
  if rows.holders[slot] > 1 and (table == DEFAULT or (position[slot, DEFAULT] > 0 and rows.holders[slot] == 2)):
    memory.counts[SHARED] -= 1
  position[slot, table] = 0
  rows.holders[slot] -= 1
  if rows.holders[slot] == 0:
    record = _whole(rows.record[slot])
    is_open = episodes.state[record] == OPEN
    if not (is_open and rows.step[slot] > episodes.last[record] - memory.longest[0]):
      _release(memory, slot)


@helper
def _put(memory: Memory, table: int, slot: int, weight: float) -> None:
  """Puts a row into a table that does not hold it, in place of the oldest if the table is full."""
  rows, tables = memory.rows, memory.tables
  start, capacity = tables.start[table], tables.capacity[table]
  if tables.filled[table] == capacity:
    place = tables.oldest[table]
    tables.oldest[table] = place + 1 if place + 1 < capacity else 0
    _drop(memory, table, _whole(memory.ring[start + place]))
  else:
    place = tables.oldest[table] + tables.filled[table]
    place = place if place < capacity else place - capacity
    tables.filled[table] += 1
  memory.ring[start + place] = slot
  memory.position[slot, table] = place + 1
  tables.inserts[table] += 1
  rows.sent[slot] |= 1 << table
  rows.holders[slot] += 1
  if rows.holders[slot] > 1 and (table == DEFAULT or (memory.position[slot, DEFAULT] > 0 and rows.holders[slot] == 2)):
    memory.counts[SHARED] += 1
  if tables.levels[table] > 0:
    memory.leaves[tables.leaf_start[table] + place] = weight


@helper
def _evict_episode(memory: Memory) -> None:
  """Takes the oldest episode out of a default table of whole ones, whose rows are next to each other."""
  rows, tables = memory.rows, memory.tables
  start, capacity, first = tables.start[DEFAULT], tables.capacity[DEFAULT], tables.oldest[DEFAULT]
  record, place = rows.record[memory.ring[start + first]], first
  while tables.filled[DEFAULT] > 0:
    slot = _whole(memory.ring[start + place])
    if rows.record[slot] != record:
      break
    if tables.levels[DEFAULT] > 0:
      memory.leaves[tables.leaf_start[DEFAULT] + place] = 0.0
    place = place + 1 if place + 1 < capacity else 0
    tables.oldest[DEFAULT] = place
    tables.filled[DEFAULT] -= 1
    _drop(memory, _whole(DEFAULT), slot)
  if tables.levels[DEFAULT] > 0:
    if first < place:
      _add_up_range(memory, _whole(DEFAULT), first, place - 1)
    else:
      _add_up_range(memory, _whole(DEFAULT), first, capacity - 1)
      if place > 0:
        _add_up_range(memory, _whole(DEFAULT), _whole(0), place - 1)


@helper
def _end(memory: Memory, record: int, state: int, weights: Float64) -> None:
  """Ends an open or a lapsed episode. With whole episodes its rows now enter the tables, the default one in place of its oldest
  episodes.
  """
  rows, tables, episodes = memory.rows, memory.tables, memory.episodes
  episodes.state[record] = state
  if memory.whole[0]:
    while tables.filled[DEFAULT] + episodes.stored[record] > tables.capacity[DEFAULT]:
      _evict_episode(memory)
    slot = _whole(episodes.head[record])
    while slot != NONE:
      _put(memory, _whole(DEFAULT), slot, weights[DEFAULT])
      slot = _whole(rows.following[slot])
    slot = _whole(episodes.head[record])
    while slot != NONE:
      _send_histories(memory, slot, weights)
      slot = _whole(rows.following[slot])
  _close(memory, record)


@helper
def _end_abandoned(memory: Memory, sequence: int, weights: Float64) -> None:
  """Ends the open episodes that have had no row while as many came as the default table holds: their writer is gone."""
  rows, episodes = memory.rows, memory.episodes
  record = _whole(memory.ends[OPEN_LIST, _OLDEST])
  while record != NONE and sequence - rows.sequence[episodes.tail[record]] > memory.tables.capacity[DEFAULT]:
    _end(memory, record, _whole(TRUNCATED), weights)
    record = _whole(memory.ends[OPEN_LIST, _OLDEST])


@helper
def _take_slot(memory: Memory, weights: Float64) -> int:
  """A free slot; where there is none, the open episodes that have had no row for longest lapse, or end if whole ones are kept."""
  rows, counts = memory.rows, memory.counts
  if counts[FREE_SLOTS] == 0:
    if counts[FRESH_SLOTS] < len(rows):
      fresh: int = _whole(counts[FRESH_SLOTS])
      counts[FRESH_SLOTS] += 1
      return fresh
    # There are more slots than all tables hold, so some are only in windows.
    while counts[FREE_SLOTS] == 0:
      record = _whole(memory.ends[OPEN_LIST, _OLDEST])
      if memory.whole[0]:
        _end(memory, record, _whole(TRUNCATED), weights)
      else:
        memory.episodes.state[record] = LAPSED
        _close(memory, record)
        _list_lapsed(memory, record)
      counts[LAPSES] += 1
  counts[FREE_SLOTS] -= 1
  freed: int = _whole(memory.free[counts[FREE_SLOTS]])
  return freed


@helper
def _send_history(memory: Memory, event: int, slot: int, weight: float) -> None:
  """Puts the history of an event that fired on a row into its table, oldest first, without what the table was sent before."""
  rows, events = memory.rows, memory.events
  table, bit = events.table[event], events.bit[event]
  oldest = rows.step[slot] - events.history[event]
  first = slot
  # What is before a row on which the same event fired was sent then, as far as this history reaches.
  while (
    rows.previous[first] != NONE
    and rows.step[rows.previous[first]] > oldest
    and (first == slot or not rows.events[first] >> bit & 1)
  ):
    first = _whole(rows.previous[first])
  at = first
  while True:
    if not rows.sent[at] >> table & 1:
      _put(memory, table, at, weight)
    if at == slot:
      return
    # Read after the insertion, which may have freed what was the next row.
    at = _whole(rows.following[at])


@helper
def _tables_of_later_events(memory: Memory, slot: int) -> int:
  """Mask of the tables that a late row belongs to because of events on stored rows after it."""
  rows, events = memory.rows, memory.events
  step, found = rows.step[slot], 0
  at = _whole(rows.following[slot])
  while at != NONE and rows.step[at] - step < memory.longest[0]:
    for event in range(len(events)):
      if rows.events[at] >> events.bit[event] & 1 and rows.step[at] - step < events.history[event]:
        found |= 1 << events.table[event]
    at = _whole(rows.following[at])
  return found


@helper
def _store(memory: Memory, incoming: Incoming, index: int, record: int) -> int:
  """Stores the row of a known record in a free slot, and links it."""
  rows = memory.rows
  slot = _take_slot(memory, incoming.weights)
  for word in range(memory.words.shape[1]):
    memory.words[slot, word] = incoming.words[index, word]
  rows.sequence[slot] = incoming.sequence[index]
  rows.record[slot] = record
  rows.step[slot] = incoming.step[index]
  rows.events[slot] = incoming.events[index]
  rows.sent[slot] = 0
  rows.holders[slot] = 0
  incoming.slot[index] = slot
  _link(memory, record, slot)
  _touch(memory, record, _whole(rows.step[slot]))
  return slot


@helper
def _send_histories(memory: Memory, slot: int, weights: Float64) -> None:
  """Puts the histories of all events that fired on a row into their tables."""
  fired, events = memory.rows.events[slot], memory.events
  if fired != 0:
    for event in range(len(events)):
      if fired >> events.bit[event] & 1:
        _send_history(memory, event, slot, weights[events.table[event]])


@helper
def _send(memory: Memory, slot: int, is_late: bool, weights: Float64) -> None:
  """Puts a row into the default table, and what its events and those of later rows ask for into event tables."""
  tables = memory.tables
  belongs = 1 << DEFAULT
  if is_late:
    belongs |= _tables_of_later_events(memory, slot)
  for table in range(len(tables)):
    if belongs >> table & 1:
      _put(memory, table, slot, weights[table])
  _send_histories(memory, slot, weights)


@helper
def _add_row(memory: Memory, incoming: Incoming, index: int) -> None:
  """Adds one row, or drops it as known."""
  episodes, counts = memory.episodes, memory.counts
  step, ended = _whole(incoming.step[index]), incoming.ended[index]
  incoming.slot[index] = NONE
  record = _find(memory, incoming.episode[index])
  if record == NONE and step >= 0:
    record = _new_record(memory, incoming.episode[index])
  if record == NONE:  # No adder numbers a step below 0.
    counts[REPEATED] += 1
    return
  if memory.whole[0]:
    _end_abandoned(memory, incoming.sequence[index], incoming.weights)
    if episodes.state[record] != OPEN:
      counts[REPEATED] += 1  # Of an episode that is over, whose rows stay together.
      return
  is_late = step <= episodes.last[record]
  if is_late:
    if not _fill_gap(memory, record, step):
      counts[REPEATED] += 1
      return
    counts[LATE] += 1
    counts[MISSING] -= 1
  else:
    expected = episodes.last[record] + 1
    if step > expected:
      _note_gap(memory, record, expected, step - 1)
      counts[GAPS] += 1
      counts[MISSING] += step - expected
    episodes.last[record] = step
    counts[NEW] += 1
    # Before a slot is needed, so that no other episode has to lapse for what this one no longer needs.
    _trim_window(memory, record)
  if memory.whole[0] and episodes.listed[record] == OPEN_LIST:
    # The newest now, so that it is not the one to end for want of a slot.
    _unlist(memory, record)
    episodes.listed[record] = OPEN_LIST
    _list(memory, record)
  slot = _store(memory, incoming, index, record)
  if not is_late and episodes.state[record] == LAPSED:
    episodes.state[record] = OPEN
  if episodes.state[record] == OPEN:
    _extend_window(memory, record, slot)
  elif episodes.state[record] == LAPSED:
    _list_lapsed(memory, record)
  if not memory.whole[0]:
    _send(memory, slot, is_late, incoming.weights)
  if ended != OPEN and episodes.state[record] in (OPEN, LAPSED):
    _end(memory, record, _whole(ended), incoming.weights)


@helper
def _sum_of_children(values: Float64, start: int) -> float:
  """The sum of `FAN_OUT` values, from the first to the last."""
  total = 0.0
  for at in range(start, start + FAN_OUT):
    total += values[at]
  return total


@helper
def _largest_child(values: Float64, start: int) -> float:
  """The largest of `FAN_OUT` values, none of which is below 0."""
  largest = 0.0
  for at in range(start, start + FAN_OUT):
    largest = values[at] if values[at] > largest else largest  # Without a branch, unlike `max`.
  return largest


@helper
def _smallest_child(values: Float64, start: int) -> float:
  """The smallest of `FAN_OUT` values that is above 0; infinity if none is."""
  smallest = math.inf
  for at in range(start, start + FAN_OUT):
    # Without a branch, as no processor could guess its outcome.
    value = values[at] if values[at] > 0.0 else math.inf
    smallest = value if value < smallest else smallest
  return smallest


@helper
def _add_up(memory: Memory, table: int, level: int, node: int) -> None:
  """Sets a node to the sum of its children, and to the largest and the smallest weight below them."""
  at = memory.node_start[table, level] + node
  if level == 0:
    first = memory.tables.leaf_start[table] + (node << FAN_OUT_BITS)
    memory.nodes[at] = _sum_of_children(memory.leaves, first)
    if len(memory.largest) > 0:
      memory.largest[at] = _largest_child(memory.leaves, first)
      memory.smallest[at] = _smallest_child(memory.leaves, first)
  else:
    first = memory.node_start[table, level - 1] + (node << FAN_OUT_BITS)
    memory.nodes[at] = _sum_of_children(memory.nodes, first)
    if len(memory.largest) > 0:
      memory.largest[at] = _largest_child(memory.largest, first)
      memory.smallest[at] = _smallest_child(memory.smallest, first)


@helper
def _add_up_range(memory: Memory, table: int, first: int, last: int) -> None:
  """Sets all nodes above the leaves `first` to `last` to their sums."""
  for level in range(memory.tables.levels[table]):
    first >>= FAN_OUT_BITS
    last >>= FAN_OUT_BITS
    for node in range(first, last + 1):
      _add_up(memory, table, level, node)


@helper
def _add_up_since(memory: Memory, table: int, inserts: int) -> None:
  """Sets the nodes above everything inserted since there were `inserts` to their sums."""
  tables = memory.tables
  capacity = tables.capacity[table]
  added = min(tables.inserts[table] - inserts, capacity)
  if added == 0:
    return
  end = (tables.oldest[table] + tables.filled[table]) % capacity
  if added <= end:
    _add_up_range(memory, table, end - added, end - 1)
  else:
    if end > 0:
      _add_up_range(memory, table, _whole(0), end - 1)
    _add_up_range(memory, table, capacity - (added - end), capacity - 1)


@kernel
def add_rows(memory: Memory, incoming: Incoming) -> None:
  """Adds rows in their order, and notes where each went in `incoming.slot`."""
  tables = memory.tables
  for table in range(len(tables)):
    tables.added_up[table] = tables.inserts[table]
  for index in range(len(incoming.step)):
    _add_row(memory, incoming, index)
  for table in range(len(tables)):
    if tables.levels[table] > 0:
      _add_up_since(memory, table, tables.added_up[table])


@helper
def _child(values: Float64, first: int, target: float) -> tuple[int, float]:
  """The child at which the running sum of `FAN_OUT` values passes `target`, and the sum of those before it."""
  total, before, chosen = 0.0, 0.0, 0
  # Without a branch, as no processor could guess its outcome.
  for child in range(FAN_OUT):
    total += values[first + child]
    passed = total <= target
    before = total if passed else before
    chosen = child + 1 if passed else chosen
  if chosen == FAN_OUT:
    # By rounding, the target is not below the sum of all: then it is the last child that has a weight.
    chosen -= 1
    while chosen > 0 and values[first + chosen] == 0.0:
      chosen -= 1
  return chosen, before


@helper
def _total(memory: Memory, table: int) -> float:
  """The sum of a prioritised table's weights; 0 for any other table."""
  levels = memory.tables.levels[table]
  return memory.nodes[memory.node_start[table, levels - 1]] if levels > 0 else 0.0


@helper
def _choose(memory: Memory, table: int, uniform: float) -> tuple[int, float]:
  """A place of a table that has no weights, and its probability."""
  tables = memory.tables
  size, selector = tables.filled[table], tables.selector[table]
  if selector == FIFO:
    return tables.oldest[table], 1.0
  if selector == LIFO:
    return (tables.oldest[table] + size - 1) % tables.capacity[table], 1.0
  # Uniform; so is, as in Reverb, a prioritised table whose weights are all 0. A full table's places are as good in any order.
  place = min(_whole(uniform * size), size - 1)
  if size < tables.capacity[table]:
    place = (tables.oldest[table] + place) % tables.capacity[table]
  return place, 1.0 / size


@helper
def _descend(memory: Memory, drawn: Drawn) -> None:
  """Finds the places at which the running sums of the weights pass the targets, which are in the place of probabilities.

  All rows go down a level before any goes on: a row's next node waits for the one before, and several rows can wait at once.
  """
  deepest = 0
  for table in range(len(memory.tables)):
    deepest = max(deepest, memory.tables.levels[table])
  for depth in range(deepest):
    for index in range(len(drawn.slot)):
      table = drawn.table[index]
      level = memory.tables.levels[table] - 2 - depth
      if level < -1 or _total(memory, table) == 0.0:
        continue
      place = drawn.slot[index] << FAN_OUT_BITS
      if level >= 0:
        child, before = _child(memory.nodes, memory.node_start[table, level] + place, drawn.probability[index])
      else:
        child, before = _child(memory.leaves, memory.tables.leaf_start[table] + place, drawn.probability[index])
      drawn.slot[index] = place + child
      drawn.probability[index] -= before


@kernel
def draw(memory: Memory, quotas: Int64, uniforms: Float64, drawn: Drawn) -> None:
  """Draws rows of several batches, with replacement.

  Args:
    memory: whose tables hold a row wherever a quota is above 0.
    quotas: int64 [batches, tables].
    uniforms: float64 [n], drawn from [0, 1), one for each row.
    drawn: is set to the n rows.
  """
  rows, tables = memory.rows, memory.tables
  index = 0
  for batch in range(quotas.shape[0]):
    for table in range(quotas.shape[1]):
      total = _total(memory, table)
      for _ in range(quotas[batch, table]):
        drawn.table[index] = table
        drawn.size[index] = tables.filled[table]
        if total > 0.0:
          drawn.slot[index] = 0
          drawn.probability[index] = uniforms[index] * total
        else:
          drawn.slot[index], drawn.probability[index] = _choose(memory, table, uniforms[index])
        index += 1
      tables.draws[table] += quotas[batch, table]
  _descend(memory, drawn)
  for index in range(len(drawn.slot)):
    table, place = drawn.table[index], drawn.slot[index]
    total = _total(memory, table)
    if total > 0.0:
      drawn.probability[index] = memory.leaves[tables.leaf_start[table] + place] / total
    slot = _whole(memory.ring[tables.start[table] + place])
    drawn.slot[index] = slot
    drawn.handle[index] = rows.sequence[slot] * len(rows) + slot


@kernel
def set_weights(memory: Memory, handles: Int64, holders: Int64, weights: Float64, places: Int64) -> int:
  """Sets the weights of rows in prioritised tables; the later one counts where a row is named twice.

  Args:
    memory: that has the tables.
    handles: int64 [n], of rows; those that their table no longer holds are passed over.
    holders: int64 [n], a prioritised table for each.
    weights: float64 [n], finite and not below 0.
    places: int64 [n], is set to the rows' places; `NONE` for those that were passed over.

  Returns:
    How many were set.
  """
  rows, tables, counts = memory.rows, memory.tables, memory.counts
  slots = len(rows)
  found = 0
  for index in range(len(handles)):
    slot = handles[index] % slots
    place = memory.position[slot, holders[index]] - 1
    places[index] = place
    if rows.sequence[slot] != handles[index] // slots or place < 0:
      places[index] = NONE
      continue
    memory.leaves[tables.leaf_start[holders[index]] + place] = weights[index]
    found += 1
  counts[STAMP] += 1
  # Level by level, each node once.
  for level in range(memory.node_start.shape[1]):
    for index in range(len(places)):
      table = holders[index]
      if places[index] == NONE or level >= tables.levels[table]:
        continue
      node = places[index] >> (FAN_OUT_BITS * (level + 1))
      at = memory.node_start[table, level] + node
      if memory.stamps[at] != counts[STAMP]:
        memory.stamps[at] = counts[STAMP]
        _add_up(memory, table, level, node)
  return found


@kernel
def set_all_weights(memory: Memory, table: int, weights: Float64) -> None:
  """Sets the weights of all rows of a prioritised table.

  Args:
    memory: that has the table.
    table: its index.
    weights: float64 [size], finite and not below 0, from the oldest row to the newest.
  """
  tables = memory.tables
  first, oldest, capacity = tables.leaf_start[table], tables.oldest[table], tables.capacity[table]
  for index in range(len(weights)):
    place = oldest + index
    memory.leaves[first + (place if place < capacity else place - capacity)] = weights[index]
  end = oldest + len(weights)
  if len(weights) > 0:
    _add_up_range(memory, table, oldest, min(end, capacity) - 1)
  if end > capacity:
    _add_up_range(memory, table, _whole(0), end - capacity - 1)


@kernel
def set_errors(memory: Memory, reliability: Reliability, slots: Int64, errors: Float64, alpha: float) -> None:
  """Sets delta of rows; the later one counts where a row is named twice. `refresh` makes criteria of them.

  Args:
    memory: that has the rows.
    reliability: of the memory.
    slots: int64 [n]; `NONE` is passed over.
    errors: float64 [n], delta, finite and not below 0.
    alpha: its exponent.
  """
  rows = memory.rows
  for index in range(len(slots)):
    slot = slots[index]
    if slot != NONE:
      reliability.error[slot] = errors[index]
      reliability.power[slot] = errors[index] ** alpha if errors[index] > 0.0 else 0.0
      _touch(memory, _whole(rows.record[slot]), _whole(rows.step[slot]))


@helper
def _raise_to_top(tree: Float64, start: Int64, record: int, value: float) -> None:
  """Sets a leaf, and the nodes above it to the largest below them."""
  at = record
  tree[at] = value
  for level in range(1, len(start)):
    first = start[level - 1] + (at >> FAN_OUT_BITS << FAN_OUT_BITS)
    at >>= FAN_OUT_BITS
    largest = _largest_child(tree, first)
    if tree[start[level] + at] == largest:
      return
    tree[start[level] + at] = largest


@helper
def _to_omega(reliability: Reliability, x: float) -> float:
  """x^omega for x > 0, to twelve digits, in about half of the time of a logarithm and an exponential.

  x = 2^e m with m in [1/2, 1), and m = s (1 + r) with the nearest step s below m, so that r < 1/64. The powers of 2^e and s are
  in tables; that of 1 + r is the first terms of its binomial series.
  """
  mantissa, exponent = math.frexp(x)
  step = int((mantissa - 0.5) * (2 * STEPS))
  r = mantissa * reliability.steps[0, step] - 1.0
  coefficients = reliability.steps[2]
  series = coefficients[5]
  for term in range(4, -1, -1):
    series = series * r + coefficients[term]
  return float(reliability.scales[exponent + MOST_BINARY_EXPONENT] * reliability.steps[1, step] * series)


@helper
def _sum_episode(memory: Memory, reliability: Reliability, record: int) -> None:
  """Adds up an episode's delta from its first stored row on; what stands before its first changed step is as it was."""
  rows, error = memory.rows, reliability.error
  changed = memory.episodes.changed[record]
  prefix, peak = 0.0, 0.0
  slot = _whole(memory.episodes.head[record])
  while slot != NONE:
    prefix += error[slot]
    peak = max(peak, error[slot])
    if rows.step[slot] >= changed:
      reliability.part[slot] = _to_omega(reliability, prefix) * reliability.power[slot] if prefix > 0.0 else 0.0
    slot = _whole(rows.following[slot])
  _raise_to_top(reliability.total, reliability.start, record, prefix)
  _raise_to_top(reliability.peak, reliability.start, record, peak)


@helper
def _write_episode(memory: Memory, reliability: Reliability, record: int, scale: float, found: int) -> int:
  """Gives an episode's rows their criteria in every table that holds them.

  Returns:
    The number of nodes in `reliability.work`, which were `found` before.
  """
  rows, tables, position = memory.rows, memory.tables, memory.position
  slot = _whole(memory.episodes.head[record])
  while slot != NONE:
    criterion = reliability.part[slot] * scale
    for table in range(len(tables)):
      place = position[slot, table] - 1
      if place < 0 or tables.levels[table] == 0:
        continue
      memory.leaves[tables.leaf_start[table] + place] = criterion
      node = place >> FAN_OUT_BITS
      at = memory.node_start[table, 0] + node
      if memory.stamps[at] != memory.counts[STAMP]:
        memory.stamps[at] = memory.counts[STAMP]
        reliability.work[0, found] = table
        reliability.work[1, found] = node
        found += 1
    slot = _whole(rows.following[slot])
  return found


@helper
def _add_up_found(memory: Memory, reliability: Reliability, found: int) -> None:
  """Adds up the nodes in `reliability.work` and those above them, level by level, each once."""
  work, counts = reliability.work, memory.counts
  level = 0
  while found > 0:
    above = 0
    for index in range(found):
      table, node = work[0, index], work[1, index]
      _add_up(memory, table, level, node)
      if level + 1 < memory.tables.levels[table]:
        node >>= FAN_OUT_BITS
        at = memory.node_start[table, level + 1] + node
        if memory.stamps[at] != counts[STAMP]:
          memory.stamps[at] = counts[STAMP]
          # Not beyond what was read already.
          work[0, above] = table
          work[1, above] = node
          above += 1
    found = above
    level += 1


@kernel
def refresh(memory: Memory, reliability: Reliability) -> None:
  """Gives every row of an episode that changed, and of open ones if F did, its criterion (Algorithm 2, lines 16 to 21).

  Psi_t = R_t^omega delta_t^alpha, where R_t is the sum of delta up to t, divided by that of the whole episode if it has ended and
  by F, the largest sum of any episode, if it has not. Of a partly evicted episode what is stored is summed.

  Args:
    memory: with `touched`.
    reliability: of the memory.
  """
  episodes, counts, touched, start = memory.episodes, memory.counts, memory.touched, reliability.start
  top = start[len(start) - 1]
  before = reliability.total[top]
  for index in range(counts[TOUCHED]):
    _sum_episode(memory, reliability, _whole(touched[index]))
  largest = reliability.total[top]
  if largest != before:
    for which in (OPEN_LIST, LAPSED_LIST):
      record = _whole(memory.ends[which, _OLDEST])
      while record != NONE:
        _touch(memory, record, _whole(_RESCALED))
        record = _whole(episodes.newer[record])
  counts[STAMP] += 1
  found = 0
  for index in range(counts[TOUCHED]):
    record = _whole(touched[index])
    is_over = episodes.state[record] in (TERMINATED, TRUNCATED)
    sum_of_delta = reliability.total[record] if is_over else largest
    scale = 1.0 / _to_omega(reliability, sum_of_delta) if sum_of_delta > 0.0 else 0.0
    found = _write_episode(memory, reliability, record, scale, found)
    episodes.changed[record] = UNTOUCHED
  counts[TOUCHED] = 0
  _add_up_found(memory, reliability, found)


@kernel
def add_up_all(memory: Memory) -> None:
  """Sets all nodes of all tables to their sums."""
  for table in range(len(memory.tables)):
    if memory.tables.levels[table] > 0:
      _add_up_range(memory, table, _whole(0), memory.tables.capacity[table] - 1)


@kernel
def restore_records(memory: Memory, lists: Int64, gaps: Int64) -> None:
  """Makes records that were filled in from a checkpoint known, listed and with their gaps.

  Args:
    memory: newly made, except for its rows and the records' own values.
    lists: int64 [n, 2], (list, record) from the oldest to the newest of each list.
    gaps: int64 [n, 3], (record, first, last) from the oldest to the newest.
  """
  for record in range(memory.counts[FRESH_RECORDS]):
    _index(memory, record)
  for index in range(len(lists)):
    memory.episodes.listed[lists[index, 1]] = lists[index, 0]
    _list(memory, lists[index, 1])
  for index in range(len(gaps)):
    _note_gap(memory, gaps[index, 0], gaps[index, 1], gaps[index, 2])

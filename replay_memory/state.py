"""What a checkpoint holds of a memory: everything but its rows, which the journal has.

Rows are named by their place in `sequences`, episodes by their place in `episodes/identity`, so the state depends neither on
slots nor on how many there are.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from replay_memory import kernels
from replay_memory.kernels import EMPTY_LIST, LAPSED, LAPSED_LIST, NONE, OPEN, OPEN_LIST, Memory

State: TypeAlias = Mapping[str, npt.NDArray[Any]]

# The number of the next row in the stream, and those of the rows, ascending.
RECEIVED, SEQUENCES = "received", "sequences"
_ROW_FIELDS = ("record", "step", "events", "sent")
_RECORD_FIELDS = ("identity", "last", "state")
# Counts of the whole stream; the others follow from the rest of the state.
_KEPT_COUNTS = (kernels.NEW, kernels.REPEATED, kernels.LATE, kernels.GAPS, kernels.MISSING, kernels.LAPSES)


def pack(memory: Memory) -> dict[str, npt.NDArray[Any]]:
  """The state of a memory's arrays; all are copies."""
  rows, episodes, tables = memory.rows, memory.episodes, memory.tables
  slots = live_slots(memory)
  place = np.full(len(rows), NONE, np.int64)
  place[slots] = np.arange(len(slots))
  records = int(memory.counts[kernels.FRESH_RECORDS])
  rings = [_ring(memory, table) for table in range(len(tables))]
  weights = [
    memory.leaves[tables.leaf_start[table] + places] if tables.levels[table] else np.empty(0)
    for table, places in enumerate(rings)
  ]
  return {
    SEQUENCES: rows.sequence[slots],
    **{f"rows/{name}": getattr(rows, name)[slots] for name in _ROW_FIELDS},
    **{f"episodes/{name}": getattr(episodes, name)[:records].copy() for name in _RECORD_FIELDS},
    "lists": np.array(
      [(which, record) for which in (OPEN_LIST, EMPTY_LIST) for record in _listed(memory, which)], np.int64
    ).reshape(-1, 2),
    "gaps": _gaps(memory),
    **{f"tables/{table}": place[memory.ring[tables.start[table] + places]] for table, places in enumerate(rings)},
    **{f"weights/{table}": values for table, values in enumerate(weights)},
    "inserts": tables.inserts.copy(),
    "draws": tables.draws.copy(),
    "counts": memory.counts[list(_KEPT_COUNTS)],
  }


def live_slots(memory: Memory) -> npt.NDArray[np.int64]:
  """The slots in use, int64 [rows], by their rows' numbers in the stream."""
  sequence = memory.rows.sequence[: memory.counts[kernels.FRESH_SLOTS]]
  slots: npt.NDArray[np.int64] = np.flatnonzero(sequence != NONE)
  ordered: npt.NDArray[np.int64] = slots[np.argsort(sequence[slots])]
  return ordered


def _ring(memory: Memory, table: int) -> npt.NDArray[np.int64]:
  """A table's places, from the oldest row to the newest."""
  tables = memory.tables
  places: npt.NDArray[np.int64] = (tables.oldest[table] + np.arange(tables.filled[table])) % tables.capacity[table]
  return places


def _listed(memory: Memory, which: int) -> Iterator[int]:
  record = int(memory.ends[which, 0])
  while record != NONE:
    yield record
    record = int(memory.episodes.newer[record])


def _gaps(memory: Memory) -> npt.NDArray[np.int64]:
  """(record, first, last) of every gap, from the oldest to the newest."""
  gaps = memory.gaps
  nodes = (memory.counts[kernels.GAP_NODES] + np.arange(len(gaps))) % len(gaps)
  nodes = nodes[gaps.record[nodes] != NONE]
  found: npt.NDArray[np.int64] = np.stack([gaps.record[nodes], gaps.first[nodes], gaps.last[nodes]], axis=1).astype(
    np.int64
  )
  return found


def unpack(memory: Memory, state: State, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
  """Fills an empty memory, except for the rows' own words.

  Rows that were not found, and what no longer fits into a table whose capacity is lower now, are left out of everything.

  Args:
    memory: newly made, with as many tables.
    state: what `pack` returned.
    found: bool [rows], which of the state's rows there are.

  Returns:
    The slot of each of the state's rows, int64 [rows]; `NONE` for one that was left out.
  """
  rings = [state[f"tables/{table}"] for table in range(len(memory.tables))]
  kept_places = [
    np.flatnonzero(found[ring])[-capacity:]
    for ring, capacity in zip(rings, memory.tables.capacity.tolist(), strict=True)
  ]
  if memory.whole[0]:
    kept_places[kernels.DEFAULT] = _whole_ones(
      state["rows/record"][rings[kernels.DEFAULT]], kept_places[kernels.DEFAULT]
    )
  held = np.zeros(len(found), np.int64)
  for ring, places in zip(rings, kept_places, strict=True):
    held[ring[places]] += 1
  in_window = _in_window(memory, state)
  kept = np.flatnonzero(found & ((held > 0) | in_window))
  slots = np.full(len(found), NONE, np.int64)
  slots[kept] = np.arange(len(kept))
  memory.rows.sequence[: len(kept)] = state[SEQUENCES][kept]
  for name in _ROW_FIELDS:
    getattr(memory.rows, name)[: len(kept)] = state[f"rows/{name}"][kept]
  memory.counts[kernels.FRESH_SLOTS] = len(kept)
  for table, (ring, places) in enumerate(zip(rings, kept_places, strict=True)):
    _fill_table(
      memory, table, slots[ring[places]], state[f"weights/{table}"][places if len(state[f"weights/{table}"]) else []]
    )
  position = memory.position[: len(kept)]
  shared = (position[:, kernels.DEFAULT] > 0) & (position[:, 1:] > 0).any(axis=1)
  memory.counts[list(_KEPT_COUNTS)] = state["counts"]
  memory.counts[kernels.SHARED] = shared.sum()
  memory.tables.inserts[:] = state["inserts"]
  memory.tables.draws[:] = state["draws"]
  _restore_episodes(memory, state)
  kernels.add_up_all(memory)
  return slots


def _whole_ones(records: npt.NDArray[np.int32], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
  """The places without those of a first episode that has lost its beginning to a lower capacity.

  Args:
    records: int32 [n], the episode of each row of a table.
    places: int64 [m], of the rows that are kept, ascending.
  """
  is_cut = len(places) and places[0] > 0 and records[places[0]] == records[places[0] - 1]
  return places[records[places] != records[places[0]]] if is_cut else places


def _in_window(memory: Memory, state: State) -> npt.NDArray[np.bool_]:
  record = state["rows/record"]
  before_window = state["episodes/last"].astype(np.int64) - memory.longest[0]
  inside: npt.NDArray[np.bool_] = (state["episodes/state"][record] == OPEN) & (
    state["rows/step"] > before_window[record]
  )
  return inside


def _fill_table(memory: Memory, table: int, slots: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> None:
  tables = memory.tables
  tables.filled[table] = len(slots)
  memory.ring[tables.start[table] : tables.start[table] + len(slots)] = slots
  memory.position[slots, table] = np.arange(len(slots)) + 1
  memory.rows.holders[slots] += 1
  if tables.levels[table]:
    memory.leaves[tables.leaf_start[table] : tables.leaf_start[table] + len(slots)] = weights


def _restore_episodes(memory: Memory, state: State) -> None:
  """Links the rows of each episode, and makes the episodes known."""
  rows, episodes = memory.rows, memory.episodes
  for array in (episodes.head, episodes.tail, episodes.window, episodes.gap):
    array[: len(state["episodes/identity"])] = NONE
  episodes.stored[:] = 0
  records = _kept_records(memory, state)
  number = np.full(len(state["episodes/identity"]), NONE, np.int64)
  number[records] = np.arange(len(records))
  for name in _RECORD_FIELDS:
    getattr(episodes, name)[: len(records)] = state[f"episodes/{name}"][records]
  episodes.listed[: len(records)] = kernels.UNLISTED
  episodes.changed[: len(records)] = kernels.UNTOUCHED
  memory.counts[kernels.FRESH_RECORDS] = len(records)
  stored = int(memory.counts[kernels.FRESH_SLOTS])
  rows.record[:stored] = number[rows.record[:stored]]
  order = np.lexsort((rows.step[:stored], rows.record[:stored])).tolist()
  for record, group in itertools.groupby(order, key=rows.record.__getitem__):
    _chain(memory, int(record), list(group))
  lists = [(which, number[record]) for which, record in state["lists"].tolist() if number[record] != NONE]
  gaps = [(number[record], first, last) for record, first, last in state["gaps"].tolist() if number[record] != NONE]
  kernels.restore_records(
    memory, np.array(_mended(memory, lists), np.int64).reshape(-1, 2), np.array(gaps, np.int64).reshape(-1, 3)
  )


def _kept_records(memory: Memory, state: State) -> npt.NDArray[np.int64]:
  """The state's records that have a place: all, unless the memory has fewer now."""
  stored = np.unique(memory.rows.record[: memory.counts[kernels.FRESH_SLOTS]])
  others = np.setdiff1d(np.arange(len(state["episodes/identity"])), stored)
  empty = [record for which, record in state["lists"].tolist() if which == EMPTY_LIST]
  # Those that lost their rows last are the most useful; a record that lost them by damage comes after these.
  newest_first = [*empty[::-1], *np.setdiff1d(others, empty).tolist()]
  room = len(memory.episodes) - len(memory.rows)
  return np.sort(np.concatenate([stored, np.array(newest_first[:room], np.int64)])).astype(np.int64)


def _chain(memory: Memory, record: int, slots: list[int]) -> None:
  """Links an episode's rows, given in the order of their steps."""
  rows, episodes = memory.rows, memory.episodes
  rows.previous[slots] = [NONE, *slots[:-1]]
  rows.following[slots] = [*slots[1:], NONE]
  episodes.head[record], episodes.tail[record] = slots[0], slots[-1]
  episodes.stored[record] = len(slots)
  if episodes.state[record] == OPEN:
    before_window = episodes.last[record] - memory.longest[0]
    episodes.window[record] = next((slot for slot in slots if rows.step[slot] > before_window), NONE)


def _mended(memory: Memory, lists: list[tuple[int, int]]) -> list[tuple[int, int]]:
  """The lists, in which an episode that has lost its window to damage is no longer open; lapsed ones follow from the rest."""
  episodes = memory.episodes
  records = int(memory.counts[kernels.FRESH_RECORDS])
  lost = (episodes.state[:records] == OPEN) & (episodes.window[:records] == NONE)
  episodes.state[:records][lost] = LAPSED
  listed = [(which, record) for which, record in lists if not (which == OPEN_LIST and lost[record])]
  empty = {record for which, record in listed if which == EMPTY_LIST}
  emptied = np.flatnonzero(episodes.stored[:records] == 0).tolist()
  lapsed = np.flatnonzero((episodes.state[:records] == LAPSED) & (episodes.stored[:records] > 0)).tolist()
  return [
    *listed,
    *((EMPTY_LIST, record) for record in emptied if record not in empty),
    *((LAPSED_LIST, record) for record in lapsed),
  ]

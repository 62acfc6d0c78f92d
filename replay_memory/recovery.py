"""A memory after a restart: what a checkpoint says of it, and every row that the journal has received since."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from replay_memory.journal import Journal
from replay_memory.memory import ReplayMemory
from replay_memory.state import RECEIVED, SEQUENCES, State
from replay_server.contract.codec import Packed


@dataclasses.dataclass(frozen=True)
class Recovered:
  """What came back.

  Attributes:
    restored: rows of the checkpoint.
    lost: rows of the checkpoint that the journal does not have.
    received_since: rows that were received after the checkpoint, the repeated ones included.
  """

  restored: int
  lost: int
  received_since: int


def recover(
  memory: ReplayMemory, journal: Journal, state: State | None, add: Callable[[Packed, int], None] | None = None
) -> Recovered:
  """Restores a memory from a checkpoint and the journal.

  Args:
    memory: newly made, with its columns.
    journal: of its rows. What it could not read is in its `findings`.
    state: of the checkpoint; None if there is none, and then all rows of the journal are added.
    add: adds rows, float32 [n, width], to the memory; the second argument is the number of the first one in the stream. None for
      `memory.add`, with priorities of 1.

  Raises:
    UserError: the state is of other tables.
  """
  wanted = np.empty(0, np.int64) if state is None else state[SEQUENCES]
  received = 0 if state is None else int(state[RECEIVED])
  rows = np.empty((len(wanted), memory.plan.width), np.float32)
  found = np.zeros(len(wanted), bool)
  for first, frame in journal.read():
    begin, end = np.searchsorted(wanted, (first, first + len(frame)))
    rows[begin:end] = frame[wanted[begin:end] - first]
    found[begin:end] = True
  restored = 0
  if state is not None:
    restored = memory.restore(state, rows, found)
  add = add or (lambda frame, first: _add_plainly(memory, frame, first))
  return Recovered(restored, int((~found).sum()), _add_since(memory, journal.read(received), received, add))


def _add_plainly(memory: ReplayMemory, rows: Packed, first: int) -> None:
  memory.add(rows, first=first)


def _add_since(
  memory: ReplayMemory, frames: Iterable[tuple[int, Packed]], received: int, add: Callable[[Packed, int], None]
) -> int:
  """Adds the rows whose numbers are `received` or above; how many these are."""
  added = 0
  for first, frame in frames:
    begin = max(0, max(received, memory.received) - first)
    if begin < len(frame):
      add(frame[begin:], first + begin)
      added += len(frame) - begin
  return added

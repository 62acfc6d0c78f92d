"""A memory that is started again from a checkpoint and the journal."""

import dataclasses
import pathlib
import random
from collections.abc import Iterator

import numpy as np
import pytest

from configs import TableSpec
from replay_memory.journal import Journal, Needs
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from replay_memory.recovery import Recovered, recover
from tests.damage import flip
from tests.replay_memory.making import contents, packed, plan_of
from tests.replay_memory.oracle import Row
from tests.serving import CODEC, config_of

RUN = "run-1"
_TABLES = [
  TableSpec("default", 0.4, 50),
  TableSpec("goal", 0.3, 20, selector="prioritized"),
  TableSpec("gap", 0.3, 30),
]


def _plan() -> Plan:
  return plan_of(config_of(_TABLES, [("goal", 5), ("gap", 12)]))


def _stream(seed: int) -> Iterator[np.ndarray]:
  """Rows of episodes that go on side by side, of which some come again, in pulls of some size."""
  rng = random.Random(seed)
  numbers, positions = [0, 0, 0], [0, 0, 0]
  rows: list[Row] = []
  for _ in range(400):
    writer = rng.randrange(3)
    ended = rng.choice(["terminated", "truncated"]) if rng.random() < 0.04 else ""
    events = rng.choice([1, 2, 3]) if rng.random() < 0.1 else 0
    rows.append(Row((writer << 32) + numbers[writer], positions[writer], events, ended))
    positions[writer] += 1
    if ended:
      numbers[writer], positions[writer] = numbers[writer] + 1, 0
    if rng.random() < 0.05:
      rows.append(rng.choice(rows[-20:]))
  while rows:
    pull = rng.randrange(1, 30)
    yield packed(rows[:pull])
    rows = rows[pull:]


def _new(folder: pathlib.Path) -> tuple[ReplayMemory, Journal]:
  return ReplayMemory(_plan(), CODEC), Journal(folder, RUN, CODEC, part_rows=40)


def _receive(memory: ReplayMemory, journal: Journal, rows: np.ndarray) -> None:
  journal.append(memory.received, rows)
  memory.add(rows)


def _learn(memory: ReplayMemory, rng: np.random.Generator) -> None:
  """Draws, and changes priorities, if there is anything in the tables."""
  if memory.sizes.all():
    drawn = memory.draw(np.array([[0, 4, 0]]), rng)
    memory.set_priorities(drawn.handles[0], drawn.tables[0], rng.uniform(0, 3, 4))


def _assert_same(memory: ReplayMemory, other: ReplayMemory) -> None:
  assert contents(memory) == contents(other)
  assert memory.counts == other.counts
  assert memory.inserts.tolist() == other.inserts.tolist()
  assert memory.received == other.received
  first, second = memory.state(), other.state()
  assert first["weights/1"].tolist() == second["weights/1"].tolist()
  drawn = [each.draw(np.array([[9, 9, 9]]), np.random.default_rng(1)).slots for each in (memory, other)]
  for slots, each in zip(drawn, (memory, other), strict=True):
    assert CODEC.unpack(each.take(slots))["step"].shape == (1, 27)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("checkpoint_after", [0, 1, 7, 15])
def test_a_restart_gives_the_checkpoint_and_every_row_since(
  tmp_path: pathlib.Path, seed: int, checkpoint_after: int
) -> None:
  memory, journal = _new(tmp_path)
  rng, state = np.random.default_rng(seed), None
  pulls = list(_stream(seed))
  for number, rows in enumerate(pulls[:20]):
    if number == checkpoint_after > 0:
      journal.sync()
      state, needs = memory.state(), [Needs(memory.received, memory.sequences)]
      journal.forget_all_but(needs)
    if state is None:
      _learn(memory, rng)  # What is learned after the checkpoint would be lost.
    if checkpoint_after == 0:
      memory = ReplayMemory(_plan(), CODEC) if number == 0 else memory
    _receive(memory, journal, rows)
    if state is not None:
      journal.forget_all_but(needs)
  restarted, journal = _new(tmp_path)  # The process was killed here.
  recovered = recover(restarted, journal, state)
  assert journal.findings == []
  if checkpoint_after == 0:
    assert recovered.received_since == memory.received
    assert contents(restarted) == contents(memory)
    return
  assert state is not None
  assert recovered == Recovered(len(state["sequences"]), 0, memory.received - int(state["received"]))
  _assert_same(restarted, memory)
  for rows in pulls[20:]:
    _receive(memory, Journal(tmp_path / "other", RUN, CODEC), rows)
    _receive(restarted, journal, rows)
  _assert_same(restarted, memory)


def test_rows_of_damaged_parts_are_told_and_the_others_come_back(tmp_path: pathlib.Path) -> None:
  memory, journal = _new(tmp_path)
  for rows in _stream(0):
    _receive(memory, journal, rows)
  state = memory.state()
  newest = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem.removeprefix("rows_")))
  flip(newest[-2])
  restarted, journal = _new(tmp_path)
  recovered = recover(restarted, journal, state)
  assert 0 < recovered.lost < memory.stored
  assert recovered.restored + recovered.lost == memory.stored
  assert "are damaged" in journal.findings[0]
  kept = set(restarted.sequences.tolist())
  assert kept < set(memory.sequences.tolist())
  before, after = contents(memory), contents(restarted)
  for name, keys in after.items():
    assert keys == [key for key in before[name] if key in set(keys)]


def test_rows_that_waited_for_a_full_disk_when_the_process_ended_are_lost_alone(tmp_path: pathlib.Path) -> None:
  memory, journal = _new(tmp_path)
  pulls = list(_stream(1))
  for rows in pulls[:5]:
    _receive(memory, journal, rows)
  for rows in pulls[5:7]:
    memory.add(rows)  # The journal could not write these.
  state = memory.state()
  restarted, journal = _new(tmp_path)
  recovered = recover(restarted, journal, state)
  assert recovered.lost == sum(sequence >= journal.end for sequence in memory.sequences.tolist())
  assert restarted.received == memory.received > journal.end
  _receive(restarted, journal, pulls[7])
  again, journal = _new(tmp_path)
  assert recover(again, journal, state).received_since == len(pulls[7])
  _assert_same(again, restarted)


def test_a_plan_with_fewer_slots_takes_the_same_state(tmp_path: pathlib.Path) -> None:
  memory, journal = _new(tmp_path)
  for rows in _stream(2):
    _receive(memory, journal, rows)
  plan = dataclasses.replace(_plan(), slots=_plan().slots - 20, spare_records=1)
  smaller = ReplayMemory(plan, CODEC)
  assert recover(smaller, journal, memory.state()).lost == 0
  assert contents(smaller) == contents(memory)

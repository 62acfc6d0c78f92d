"""The memory against an oracle that recomputes everything, for random streams of rows."""

import dataclasses
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from configs import TableSpec
from configs.specs import Selector
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from tests.replay_memory.making import contents, keys_in, packed, plan_of
from tests.replay_memory.oracle import Key, Oracle, Row
from tests.serving import CODEC, config_of

_PLAIN = "NUMBA_DISABLE_JIT"
_EXPONENT = 0.65


@st.composite
def plans(draw: st.DrawFn) -> Plan:
  """One to three event tables, prioritised or not, and events of which several may share a table."""
  names = ["left", "middle", "right"][: draw(st.integers(1, 3))]
  capacities = {name: draw(st.integers(1, 9)) for name in names}
  fed = [*names, *draw(st.lists(st.sampled_from(names), max_size=2))]
  events = [(name, draw(st.integers(1, capacities[name]))) for name in draw(st.permutations(fed))]
  selectors: st.SearchStrategy[Selector] = st.sampled_from(["uniform", "prioritized"])
  capacities = {"default": draw(st.integers(1, 12)), **capacities}
  tables = [TableSpec(name, 1 / len(capacities), size, selector=draw(selectors)) for name, size in capacities.items()]
  plan = plan_of(config_of(tables, events))
  # From slots that never suffice for more than one open episode to such that always do.
  spare = draw(st.sampled_from([1, plan.longest_history, 4 * plan.longest_history + 1]))
  return dataclasses.replace(plan, slots=sum(plan.capacities) + spare)


_KINDS = ["next"] * 7 + ["skip", "late", "late", "repeat"]


@dataclasses.dataclass(frozen=True)
class Op:
  """A row to be added: `kind` says how its step follows from those of its episode, `pick` which of several it is."""

  episode: int
  kind: str
  pick: int
  events: int
  ended: str
  cut: bool  # Whether it is the last of the rows that are added at once.
  updates: int  # Of priorities, after it, if it is the last.


def _random_ops(seed: int) -> list[Op]:
  """Lists that hypothesis draws are too short to fill tables."""
  rng = random.Random(seed)
  event_rate, end_rate, cut_rate = rng.choice([0.05, 0.3]), rng.choice([0.02, 0.1]), rng.choice([0.1, 0.9])
  return [
    Op(
      episode=rng.randrange(4),
      kind=rng.choice(_KINDS),
      pick=rng.randrange(8),
      events=rng.randrange(32) if rng.random() < event_rate else 0,
      ended=rng.choice(["terminated", "truncated"]) if rng.random() < end_rate else "",
      cut=rng.random() < cut_rate,
      updates=rng.randrange(3),
    )
    for _ in range(rng.randrange(20, 100))
  ]


def _row_of(oracle: Oracle, pending: list[Row], op: Op, numbers: dict[int, int]) -> Row:
  """The row that an op stands for; an episode that has ended is followed by another of the same writer."""
  identity = (op.episode << 32) + numbers.get(op.episode, 0)
  received: set[int] = set()
  if identity in oracle.episodes:
    received |= oracle.episodes[identity].received
  for row in pending:
    if row.episode == identity:
      received.add(row.step)
  last = max(received, default=-1)
  skipped = sorted(set(range(last)) - received)
  step = last + 1
  if op.kind == "skip":
    step = last + 2 + op.pick
  elif op.kind == "late" and skipped:
    step = skipped[op.pick % len(skipped)]
  elif op.kind == "repeat" and received:
    step = sorted(received)[op.pick % len(received)]
  if op.ended:
    numbers[op.episode] = numbers.get(op.episode, 0) + (op.pick % 4 > 0)  # Or its rows go on after its end.
  return Row(identity, step, op.events, op.ended)


def _assert_same(memory: ReplayMemory, oracle: Oracle) -> None:
  plan = memory.plan
  assert contents(memory) == dict(zip(plan.names, oracle.tables, strict=True))
  assert memory.inserts.tolist() == oracle.inserts
  assert dataclasses.asdict(memory.counts) == oracle.counts
  assert memory.stored == len(oracle.stored)
  assert memory.sequences.tolist() == sorted(oracle.stored.values())
  assert memory.events_in_default == oracle.events_in_default
  state = memory.state()
  for table, keys in enumerate(oracle.tables):
    if plan.exponents[table] is not None:
      assert state[f"weights/{table}"].tolist() == [oracle.weights[table][key] for key in keys]
  for identity in oracle.episodes:
    chain = oracle.chain(identity)
    if chain:
      slot = next(slot for slot in memory.slots if keys_in(memory, np.array([slot])) == [chain[0]])
      assert keys_in(memory, memory.episode_of(slot)) == chain


def _restored(memory: ReplayMemory) -> ReplayMemory:
  """A new memory with the same contents."""
  fresh = ReplayMemory(memory.plan, CODEC)
  rows = memory.take(memory.slots)
  assert fresh.restore(memory.state(), rows, np.ones(len(rows), bool)) == len(rows)
  return fresh


def _play(plan: Plan, ops: list[Op]) -> None:
  memory, oracle = ReplayMemory(plan, CODEC), Oracle(plan)
  generator = np.random.default_rng(0)
  pending: list[Row] = []
  numbers: dict[int, int] = {}
  for op in ops:
    pending.append(_row_of(oracle, pending, op, numbers))
    if op.cut:
      _add(memory, oracle, pending, generator)
      pending = []
      for _ in range(op.updates):
        _update(memory, oracle, generator)
      if op.updates == 2:
        memory = _restored(memory)
      _assert_same(memory, oracle)
  _add(memory, oracle, pending, generator)
  _assert_same(memory, oracle)


def _add(memory: ReplayMemory, oracle: Oracle, rows: list[Row], generator: np.random.Generator) -> None:
  priorities = generator.uniform(0, 2, len(memory.table_names)) * (generator.random(len(memory.table_names)) > 0.1)
  added = memory.add(packed(rows), priorities)
  for row in rows:
    oracle.add(row, [weight_of(priority) for priority in priorities])
  assert added.new + added.repeated + added.late == len(rows)
  live = [slot for slot in added.slots.tolist() if slot >= 0]
  assert keys_in(memory, np.array(live, np.int64)) == [
    row.key for row, slot in zip(rows, added.slots, strict=True) if slot >= 0
  ]


def weight_of(priority: float) -> float:
  """p^alpha, as numpy computes it for arrays."""
  return float(np.where(priority > 0, np.array([priority]) ** np.array([_EXPONENT]), 0.0)[0])


def _update(memory: ReplayMemory, oracle: Oracle, generator: np.random.Generator) -> None:
  """Draws rows, and sets the priorities of some; half of them may have been evicted when that happens."""
  sizes = memory.sizes
  if not sizes.all():
    return
  quotas = generator.integers(0, 4, (1, len(sizes)))
  quotas[0, 0] += 1
  drawn = memory.draw(quotas, generator)
  keys: list[Key] = keys_in(memory, drawn.slots[0])
  for key, table, size in zip(keys, drawn.tables[0].tolist(), drawn.table_sizes[0].tolist(), strict=True):
    assert key in oracle.tables[table]
    assert size == len(oracle.tables[table])
  prioritized = np.array([exponent is not None for exponent in memory.plan.exponents])[drawn.tables]
  priorities = generator.uniform(0, 3, int(prioritized.sum()))
  handles, tables = drawn.handles[prioritized], drawn.tables[prioritized]
  assert memory.set_priorities(handles, tables, priorities) == len(priorities)
  named = [key for key, chosen in zip(keys, prioritized[0], strict=True) if chosen]
  for key, table, priority in zip(named, tables.tolist(), priorities, strict=True):
    oracle.weights[table][key] = weight_of(priority)
  held = memory.holds(drawn.handles[0])
  assert held.tolist() == [[key in table for table in oracle.tables] for key in keys]


@settings(
  max_examples=10 if os.environ.get(_PLAIN) else 80,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(HealthCheck),
  phases=(Phase.generate,),
)
@given(plans(), st.integers(0, 2**32 - 1))
def test_tables_links_and_weights_are_those_of_the_oracle_before_and_after_a_restart(plan: Plan, seed: int) -> None:
  _play(plan, _random_ops(seed))


def test_the_kernels_do_the_same_as_plain_python() -> None:
  if os.environ.get(_PLAIN):
    return
  env = {**os.environ, _PLAIN: "1"}
  command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(pathlib.Path(__file__).parent)]
  done = subprocess.run([*command, "-k", "oracle or by_hand"], env=env, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stdout

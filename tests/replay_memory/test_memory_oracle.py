"""The memory against an oracle that recomputes everything, for random streams of rows."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from replay_memory import kernels
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from tests.replay_memory.making import contents, keys_in, packed
from tests.replay_memory.oracle import Key, Oracle, Row
from tests.replay_memory.streams import PLAIN, Op, plans, random_ops, row_of, whole_plans
from tests.serving import CODEC

_EXPONENT = 0.65


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
  sums = memory.arrays.nodes.copy()
  kernels.add_up_all(memory.arrays)
  np.testing.assert_array_equal(memory.arrays.nodes, sums)
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
    row = row_of(oracle, pending, op, numbers)
    if row.step < plan.capacities[0] or not plan.whole_episodes:  # Longer ones are refused.
      pending.append(row)
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
  max_examples=4 if os.environ.get(PLAIN) else 60,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(HealthCheck),
  phases=(Phase.generate,),
)
@given(plans(), st.integers(0, 2**32 - 1))
def test_tables_links_and_weights_are_those_of_the_oracle_before_and_after_a_restart(plan: Plan, seed: int) -> None:
  _play(plan, random_ops(seed))


@settings(
  max_examples=3 if os.environ.get(PLAIN) else 30,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(HealthCheck),
  phases=(Phase.generate,),
)
@given(whole_plans(), st.integers(0, 2**32 - 1))
def test_whole_episodes_come_and_go_as_in_the_oracle_before_and_after_a_restart(plan: Plan, seed: int) -> None:
  _play(plan, random_ops(seed))


def test_the_kernels_do_the_same_as_plain_python() -> None:
  if os.environ.get(PLAIN):
    return
  env = {**os.environ, PLAIN: "1"}
  command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(pathlib.Path(__file__).parent)]
  done = subprocess.run([*command, "-k", "oracle or by_hand"], env=env, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stdout

"""Draws and priorities of the memory's tables."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from configs import PriorityConfig, TableSpec
from configs.specs import Selector
from replay_memory import kernels
from replay_memory.memory import ReplayMemory
from replay_memory.plan import allocate
from tests.replay_memory.making import episode_rows, packed, plan_of
from tests.replay_memory.oracle import Row
from tests.serving import CODEC, config_of


def _memory(selectors: Sequence[Selector], capacity: int = 100, exponent: float = 0.65) -> ReplayMemory:
  """A memory with a table for each selector; every row with event i goes to table i + 1 as well."""
  tables = [
    TableSpec(f"table_{index}", 1 / len(selectors), capacity, selector=selector)
    for index, selector in enumerate(selectors)
  ]
  config = config_of(tables, replay={"priority": PriorityConfig(exponent=exponent)})
  return ReplayMemory(plan_of(config), CODEC)


def _counts(memory: ReplayMemory, draws: int, table: int = 0) -> np.ndarray:
  """How often each row was drawn, in the order of the table."""
  quotas = np.zeros((1, len(memory.table_names)), np.int64)
  quotas[0, table] = draws
  drawn = memory.draw(quotas, np.random.default_rng(5))
  order = memory.contents(table).tolist()
  return np.array([np.count_nonzero(drawn.slots == slot) for slot in order])


def _set(memory: ReplayMemory, table: int, priorities: Sequence[float]) -> None:
  """Sets the priorities of a table's rows, in its order."""
  slots = memory.contents(table)
  sequences = memory.arrays.rows.sequence[slots]
  handles = (sequences * memory.plan.slots + slots).astype(np.uint64)
  assert memory.set_priorities(handles, np.full(len(slots), table), np.array(priorities, float)) == len(slots)


@pytest.mark.parametrize("rows", [1, 5, 100, 130])
def test_uniform_draws_are_uniform(rows: int) -> None:
  memory = _memory(["uniform"])
  memory.add(packed(episode_rows(rows)))
  size = min(rows, 100)
  counts = _counts(memory, 200 * size)
  assert counts.sum() == 200 * size
  assert size == 1 or stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("rows", [1, 5, 63, 64, 65, 100, 130, 1000])
def test_prioritized_draws_follow_the_priorities_to_the_power_alpha(rows: int) -> None:
  memory = _memory(["prioritized"], capacity=900)
  memory.add(packed(episode_rows(rows)))
  size = min(rows, 900)
  priorities = np.random.default_rng(1).uniform(0.01, 2, size)
  priorities[: size // 3] = 0
  _set(memory, 0, priorities.tolist())
  weights = np.where(priorities > 0, priorities**0.65, 0)
  counts = _counts(memory, 200 * size)
  assert not counts[weights == 0].any()
  if size > 1:
    expected = weights[weights > 0] / weights.sum() * counts.sum()
    assert stats.chisquare(counts[weights > 0], expected).pvalue > 0.01
  drawn = memory.draw(np.array([[50]]), np.random.default_rng(0))
  place = {slot: index for index, slot in enumerate(memory.contents(0).tolist())}
  chances = [weights[place[slot]] / weights.sum() for slot in drawn.slots[0].tolist()]
  np.testing.assert_allclose(drawn.probabilities[0], chances, rtol=1e-12)
  assert (drawn.table_sizes == size).all()


def test_draws_are_uniform_where_all_priorities_are_0_by_hand() -> None:
  memory = _memory(["prioritized"])
  memory.add(packed(episode_rows(4)), [0.0])
  drawn = memory.draw(np.array([[40]]), np.random.default_rng(0))
  assert set(drawn.slots[0].tolist()) == {0, 1, 2, 3}
  assert set(drawn.probabilities[0].tolist()) == {0.25}


def test_a_priority_of_0_is_never_drawn_even_where_alpha_is_0_by_hand() -> None:
  memory = _memory(["prioritized"], exponent=0.0)
  memory.add(packed(episode_rows(3)))
  _set(memory, 0, [7.0, 0.0, 0.5])
  drawn = memory.draw(np.array([[60]]), np.random.default_rng(0))
  assert set(drawn.slots[0].tolist()) == {0, 2}
  assert set(drawn.probabilities[0].tolist()) == {0.5}


def test_the_oldest_and_the_newest_are_drawn_by_hand() -> None:
  memory = _memory(["fifo", "lifo"], capacity=3)
  rows = [Row(0, t, events=1) for t in range(5)]
  for count, expected in ((1, (0, 0)), (3, (0, 2)), (4, (1, 3)), (5, (2, 4))):
    memory.add(packed(rows[memory.received : count]))
    drawn = memory.draw(np.array([[2, 2]]), np.random.default_rng(0))
    fields = CODEC.unpack(memory.take(drawn.slots))
    assert fields["step"].tolist() == [[expected[0]] * 2 + [expected[1]] * 2]
    assert drawn.probabilities.tolist() == [[1.0] * 4]


def test_batches_are_sorted_by_table_and_have_their_quotas_by_hand() -> None:
  memory = _memory(["uniform", "prioritized", "uniform"])
  memory.add(packed([Row(0, t, events=0b11) for t in range(9)]))
  drawn = memory.draw(np.array([[2, 1, 1], [0, 4, 0], [1, 0, 3]]), np.random.default_rng(0))
  assert drawn.tables.tolist() == [[0, 0, 1, 2], [1, 1, 1, 1], [0, 2, 2, 2]]
  assert memory.draws.tolist() == [3, 5, 4]
  assert drawn.slots.shape == drawn.handles.shape == drawn.probabilities.shape == (3, 4)


def test_new_rows_get_the_priority_of_their_table_by_hand() -> None:
  memory = _memory(["prioritized", "uniform", "prioritized"], exponent=0.5)
  memory.add(packed([Row(0, 0, events=0b11)]), [4.0, 1.0, 9.0])
  memory.add(packed([Row(0, 1, events=0b11)]), [16.0, 1.0, 25.0])
  state = memory.state()
  assert [state[f"weights/{table}"].tolist() for table in range(3)] == [[2, 4], [], [3, 5]]


def test_the_same_seed_draws_the_same_rows() -> None:
  memory = _memory(["uniform", "prioritized"])
  memory.add(packed([Row(0, t, events=1) for t in range(50)]))
  draws = [memory.draw(np.array([[8, 8]] * 4), np.random.default_rng(3)).slots for _ in range(2)]
  assert draws[0].tolist() == draws[1].tolist()


def test_priorities_are_refused_where_a_table_has_none() -> None:
  memory = _memory(["uniform", "prioritized"])
  memory.add(packed([Row(0, 0, events=1)]))
  drawn = memory.draw(np.array([[1, 1]]), np.random.default_rng(0))
  with pytest.raises(ValueError, match="prioritised tables alone"):
    memory.set_priorities(drawn.handles.ravel(), drawn.tables.ravel(), np.ones(2))


def test_sums_equal_fresh_sums_exactly_after_many_updates() -> None:
  """A sum that is corrected by differences drifts: after 10^5 updates by about 10^-12 of its value."""
  memory = _memory(["prioritized"], capacity=1_000)
  rng = np.random.default_rng(0)
  rows = packed(episode_rows(3_000))
  for begin in range(0, 3_000, 100):
    memory.add(rows[begin : begin + 100], [float(rng.uniform(0, 1e9))])
    for _ in range(34):
      drawn = memory.draw(np.array([[100]]), rng)
      scales = 10.0 ** rng.uniform(-9, 9, 100)
      assert memory.set_priorities(drawn.handles[0], drawn.tables[0], scales) == 100
  fresh = allocate(memory.plan)
  fresh.leaves[:] = memory.arrays.leaves
  kernels.add_up_all(fresh)
  assert fresh.nodes.tolist() == memory.arrays.nodes.tolist()
  assert memory.arrays.nodes.max() == pytest.approx(memory.arrays.leaves.sum(), rel=1e-12)

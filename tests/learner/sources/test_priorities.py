"""Prioritised tables: numbers worked out by hand and by an oracle, and draws from a real server."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import PriorityConfig, ReplayConfig, TableSpec, UserError
from learner.sources.block import Block
from learner.sources.priorities import LARGEST_KEPT, new_item_priority, priorities_of
from learner.sources.server import make_server_priorities, make_server_source
from learner.weights.importance import importance_weights
from replay_server.contract.layout import MAX_PRIORITY

TABLES = [TableSpec("default", 0.5, selector="prioritized"), TableSpec("goal", 0.5, capacity=50)]


def test_a_priority_is_the_absolute_error_plus_epsilon() -> None:
  priorities = priorities_of(np.array([[0.5, -2.0], [0.0, 3e9]], np.float32), 0.01)
  np.testing.assert_allclose(priorities, [[0.51, 2.01], [0.01, 1e9]])


def test_importance_weights_of_two_tables_by_hand() -> None:
  # In a table of 4 rows, probabilities .5 and .125 make N P 2 and .5. The uniform table's row counts as 1.
  weights = importance_weights(
    np.array([[0.5, 0.125, 0.2]]), np.array([[4, 4, 5]]), np.array([[True, True, False]]), exponent=0.5
  )
  np.testing.assert_allclose(weights, np.array([[2**-0.5, 2**0.5, 1.0]]) / 2**0.5, rtol=1e-6)
  assert weights.dtype == np.float32


def test_importance_weights_by_the_largest_of_all_rows_by_hand() -> None:
  # N P of the row with the largest weight is .25, so the largest weight is 2.
  weights = importance_weights(
    np.array([[0.5, 0.125]]), np.array([[4, 4]]), np.array([[True, True]]), exponent=0.5, least_ratio=0.25
  )
  np.testing.assert_allclose(weights, np.array([[2**-0.5, 2**0.5]]) / 2, rtol=1e-6)


@given(st.data(), st.integers(1, 4), st.integers(1, 6), st.floats(0, 1))
@settings(deadline=None)
def test_importance_weights_are_those_of_plain_loops(data: Any, batches: int, batch_size: int, beta: float) -> None:
  shape = (batches, batch_size)

  def draw(values: Any) -> np.ndarray:
    numbers = data.draw(st.lists(values, min_size=batches * batch_size, max_size=batches * batch_size))
    return np.array(numbers).reshape(shape)

  probabilities, sizes, prioritized = draw(st.floats(1e-6, 1)), draw(st.integers(1, 10**6)), draw(st.booleans())
  weights = importance_weights(probabilities, sizes, prioritized, beta)
  for batch in range(batches):
    raw = [
      (1 / (int(sizes[batch, row]) * float(probabilities[batch, row]))) ** beta if prioritized[batch, row] else 1.0
      for row in range(batch_size)
    ]
    assert weights[batch].tolist() == pytest.approx([weight / max(raw) for weight in raw], rel=1e-5)


def test_the_importance_exponent_goes_from_its_first_value_to_its_last() -> None:
  config = PriorityConfig(importance_exponent=0.4, final_importance_exponent=1.0, importance_updates=100)
  assert [config.importance_exponent_at(updates) for updates in (0, 50, 100, 1_000)] == pytest.approx([0.4, 0.7, 1, 1])
  constant = PriorityConfig(importance_exponent=0.4, final_importance_exponent=None)
  assert constant.importance_exponent_at(10**9) == 0.4


def _served(make_config: Any, serve: Any, **priority: Any) -> Any:
  config = make_config(
    TABLES, {"priority": PriorityConfig(**priority)}, batch_size=8, updates_per_block=4, prefetch=False
  )
  filled = serve(config)
  filled.fill("default", range(4))
  filled.fill("goal", range(3))
  return filled


def _draw(filled: Any, blocks: int) -> list[Block]:
  sampler = make_server_source(filled.server.connection, filled.server.manifest, filled.stop)
  try:
    return [sampler.next_block() for _ in range(blocks)]
  finally:
    sampler.close()


def _steps(filled: Any, block: Block) -> np.ndarray:
  steps: np.ndarray = filled.codec.unpack(block.rows)["step"]
  return steps


def test_rows_are_drawn_in_proportion_to_their_priorities(make_config, serve) -> None:
  filled = _served(make_config, serve, exponent=0.5, epsilon=1e-6)
  priorities = make_server_priorities(filled.server.connection, filled.config)
  errors = np.array([1.0, 4.0, 9.0, 16.0], np.float32)
  seen: set[int] = set()
  while seen != {0, 1, 2, 3}:
    (block,) = _draw(filled, 1)
    steps = _steps(filled, block)
    priorities.update(block, errors[steps])
    seen |= set(steps[block.tables == 0].tolist())
  assert 1 < priorities.of_new_items[0] <= 16
  assert math.isnan(priorities.of_new_items[1])
  counts = np.zeros(4)
  for block in _draw(filled, 60):
    drawn = block.tables == 0
    steps = _steps(filled, block)[drawn]
    counts += np.bincount(steps, minlength=4)
    # With alpha = .5 the probabilities are proportional to the errors' roots, 1 to 4.
    np.testing.assert_allclose(block.probabilities[drawn], (steps + 1) / 10, rtol=1e-4)
    assert set(block.table_sizes[drawn]) == {4}
    assert set(block.table_sizes[~drawn]) == {3}
    np.testing.assert_allclose(block.probabilities[~drawn], 1 / 3)
  expected = counts.sum() * np.array([0.1, 0.2, 0.3, 0.4])
  # A chi-square value exceeded once in ten million times (3 degrees of freedom); uniform draws would give about 190.
  assert ((counts - expected) ** 2 / expected).sum() < 36


def test_the_later_error_counts_for_a_row_drawn_twice(make_config, serve) -> None:
  filled = _served(make_config, serve, exponent=1.0)
  priorities = make_server_priorities(filled.server.connection, filled.config)
  (block,) = _draw(filled, 1)
  errors = np.arange(1, block.tables.size + 1, dtype=np.float32).reshape(block.tables.shape)
  priorities.update(block, errors)
  last = {}
  for step, table, error in zip(_steps(filled, block).ravel(), block.tables.ravel(), errors.ravel(), strict=True):
    if table == 0:
      last[int(step)] = float(error) + 1e-3
  total = sum(last.get(step, 1.0) for step in range(4))
  for again in _draw(filled, 3):
    drawn = again.tables == 0
    expected = [last.get(int(step), 1.0) / total for step in _steps(filled, again)[drawn]]
    np.testing.assert_allclose(again.probabilities[drawn], expected, rtol=1e-4)


def test_an_invalid_priority_never_reaches_the_server_and_is_counted(make_config, serve, monkeypatch) -> None:
  filled = _served(make_config, serve, exponent=1.0)
  priorities = make_server_priorities(filled.server.connection, filled.config)
  sent: list[dict[int, float]] = []
  client = filled.server.connection.client
  mutate = client.mutate_priorities

  def note(table: str, updates: dict[int, float]) -> None:
    sent.append(updates)
    mutate(table, updates)

  monkeypatch.setattr(client, "mutate_priorities", note)
  for bad in (math.nan, math.inf, -math.inf, 1e30):
    (block,) = _draw(filled, 1)
    errors = np.ones(block.tables.shape, np.float32)
    errors[0] = bad  # The first four of its eight rows are from the prioritised table.
    priorities.update(block, errors)
  assert priorities.refused == 4 * 4
  assert all(0 < priority <= MAX_PRIORITY for updates in sent for priority in updates.values())
  assert 0 < priorities.of_new_items[0] <= MAX_PRIORITY
  # The table's priorities are all finite, so it still answers.
  for block in _draw(filled, 2):
    assert np.isfinite(block.probabilities).all()


def test_the_mean_of_new_items_by_hand() -> None:
  rows = np.array([[0.02, 0.04, math.nan], [math.nan, math.nan, math.nan], [0.13, math.nan, math.nan]])
  # The first step gives .03 as it is, the second has no row of the table, and the third adds a tenth of .13.
  assert new_item_priority(math.nan, rows, "mean") == pytest.approx(0.9 * 0.03 + 0.1 * 0.13)
  assert new_item_priority(2.0, rows, "mean") == pytest.approx(0.9 * (0.9 * 2 + 0.1 * 0.03) + 0.1 * 0.13)


def test_the_largest_of_new_items_by_hand() -> None:
  small = np.array([[0.02, 0.01], [math.nan, math.nan]])
  # It is not held at 1 once there was an update, and falls where nothing is as large.
  assert new_item_priority(math.nan, small, "largest") == pytest.approx(0.02 * LARGEST_KEPT)
  after_a_spike = new_item_priority(0.02, np.array([[15.0, 0.1]]), "largest")
  assert after_a_spike == 15.0
  assert new_item_priority(after_a_spike, np.full((5_000, 1), 0.02), "largest") < 0.2


@given(
  st.one_of(st.just(math.nan), st.floats(1e-3, 1e3)),
  st.lists(st.lists(st.one_of(st.just(math.nan), st.floats(1e-3, 1e9)), min_size=3, max_size=3), max_size=5),
  st.sampled_from(["largest", "mean"]),
)
def test_new_items_get_a_priority_between_the_smallest_and_the_largest_given(
  before: float, rows: list[list[float]], mode: Any
) -> None:
  known = [value for value in (before, *(value for batch in rows for value in batch)) if not math.isnan(value)]
  result = new_item_priority(before, np.array(rows).reshape(-1, 3), mode)
  if known:
    assert min(known) * LARGEST_KEPT ** len(rows) * (1 - 1e-9) <= result <= max(known) * (1 + 1e-9)
  else:
    assert math.isnan(result)
  # A block's steps count one by one, however they are divided into blocks.
  value = before
  for batch in rows:
    value = new_item_priority(value, np.array([batch]), mode)
  assert value == pytest.approx(result, nan_ok=True)


def test_a_block_that_is_not_drawn_ahead_sees_every_earlier_priority(make_config, serve) -> None:
  config = make_config(
    [TableSpec("default", 1.0, selector="prioritized")],
    {"priority": PriorityConfig(exponent=1.0)},
    batch_size=8,
    updates_per_block=32,
    prefetch=False,
  )
  filled = serve(config)
  filled.fill("default", range(100))
  source = make_server_source(filled.server.connection, filled.server.manifest, filled.stop)
  try:
    block = source.next_block()
    raised = int(block.handles[0, 0])
    filled.server.connection.update_priorities("default", {raised: 1e6})
    again = source.next_block()
    assert source.drawn_ahead() == {"default": 0}
  finally:
    source.close()
  assert (again.handles == raised).mean() > 0.99


def test_a_run_without_prioritised_tables_sends_no_priorities(make_config, serve) -> None:
  filled = serve(make_config([TableSpec("default", 1.0)], batch_size=4, updates_per_block=2, prefetch=False))
  filled.fill("default", range(4))
  priorities = make_server_priorities(filled.server.connection, filled.config)
  (block,) = _draw(filled, 1)
  assert not priorities.in_use
  priorities.update(block, np.full((2, 4), 5.0, np.float32))
  assert np.isnan(priorities.of_new_items).all()


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"exponent": -0.1}, "replay.priority.exponent is -0.1"),
    ({"exponent": math.nan}, "replay.priority.exponent is nan"),
    ({"importance_exponent": 1.5}, "importance exponent of replay.priority is 1.5"),
    ({"final_importance_exponent": -1}, "importance exponent of replay.priority is -1"),
    ({"epsilon": 0.0}, "replay.priority.epsilon is 0.0"),
    ({"importance_updates": 0}, "replay.priority.importance_updates is 0"),
    ({"new_items": "max"}, "replay.priority.new_items is 'max': use one of largest, mean"),
  ],
)
def test_priorities_that_make_no_sense_are_refused(values, message) -> None:
  with pytest.raises(UserError, match=message):
    ReplayConfig(priority=PriorityConfig(**values))

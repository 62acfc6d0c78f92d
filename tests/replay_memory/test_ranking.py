"""Ranks: numbers by hand, sorting against a sorted list, and everything against an oracle for random streams of rows."""

import dataclasses
import math
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from learner.weights.importance import importance_weights
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from replay_memory.ranking import LARGEST_PRIORITY, Ranking, ranked
from tests.replay_memory.making import episode_rows, keys_in, memory_of, packed
from tests.replay_memory.oracle import Key, Oracle, Row
from tests.replay_memory.streams import PLAIN, Op, plans, random_ops, row_of
from tests.serving import CODEC


def rank_of(error: float, others: list[float]) -> int:
  """The place of an error in a sorted list, the largest first; the best of those that equal errors share."""
  return 1 + sum(other > error for other in others)


class RankOracle:
  """The error of each stored row, and each table's errors at the last ranking, beside the oracle of the memory."""

  def __init__(self, oracle: Oracle, alpha: float):
    self._oracle = oracle
    self._alpha = alpha
    self.errors: dict[Key, float] = {}
    self._ranked: list[list[float]] = [[] for _ in oracle.tables]

  def note_added(self) -> None:
    self.errors = {key: self.errors.get(key, math.inf) for key in self._oracle.stored}

  def update(self, key: Key, error: float) -> None:
    if key not in self._oracle.stored:
      return
    self.errors[key] = error
    for table, weights in enumerate(self._oracle.weights):
      if key in weights:
        weights[key] = float(rank_of(error, self._ranked[table])) ** -self._alpha

  def rank_all(self) -> None:
    for table, weights in enumerate(self._oracle.weights):
      errors = self._ranked[table] = [self.errors[key] for key in weights]
      for key in weights:
        weights[key] = float(rank_of(self.errors[key], errors)) ** -self._alpha


def with_ranks(plan: Plan, alpha: float) -> Plan:
  """The plan with ranked tables in the place of prioritised ones."""
  selectors = ["ranked" if selector == "prioritized" else selector for selector in plan.selectors]
  exponents = [alpha if selector == "ranked" else None for selector in selectors]
  return dataclasses.replace(plan, selectors=tuple(selectors), exponents=tuple(exponents), tracks_extremes=True)


class Checked:
  """A memory with ranks, and the oracle of both."""

  def __init__(self, plan: Plan, alpha: float):
    self.plan = plan
    self.memory = ReplayMemory(plan, CODEC)
    self.ranking = Ranking(self.memory)
    self.oracle = Oracle(plan)
    self.expected = RankOracle(self.oracle, alpha)
    self.seen: list[tuple[Key, np.uint64]] = []

  def add(self, rows: list[Row]) -> None:
    priorities = [LARGEST_PRIORITY] * len(self.plan.names)
    self.memory.add(packed(rows), priorities)
    for row in rows:
      self.oracle.add(row, priorities)
    self.expected.note_added()
    self.check()

  def update(self, generator: np.random.Generator) -> None:
    """Gives errors to some rows that are drawn and to some drawn before, which may be gone; few values, so many are equal."""
    if not self.memory.sizes.all():
      return
    drawn = self.memory.draw(generator.integers(1, 4, (1, len(self.plan.names))), generator)
    self.seen += zip(keys_in(self.memory, drawn.slots[0]), drawn.handles[0], strict=True)
    chosen = [self.seen[index] for index in generator.integers(0, len(self.seen), generator.integers(0, 8))]
    errors = np.where(
      generator.random(len(chosen)) < 0.5, generator.integers(0, 3, len(chosen)), generator.exponential(2, len(chosen))
    ).astype(np.float32)
    self.ranking.update(np.array([handle for _, handle in chosen], np.uint64), errors)
    for (key, _), error in zip(chosen, errors.tolist(), strict=True):
      self.expected.update(key, error)
    self.check()

  def rank_all(self) -> None:
    self.ranking.rank_all()
    self.expected.rank_all()
    self.check()

  def check(self) -> None:
    state, sizes = self.memory.state(), self.memory.sizes
    for table, exponent in enumerate(self.plan.exponents):
      if exponent is None:
        continue
      weights = [self.oracle.weights[table][key] for key in self.oracle.tables[table]]
      assert state[f"weights/{table}"].tolist() == pytest.approx(weights, rel=1e-12)
      if weights:
        assert self.memory.least_ratios[table] == pytest.approx(sizes[table] * min(weights) / math.fsum(weights))

  def restart(self) -> None:
    """Goes on with a memory restored from the state."""
    before, self.memory = self.memory, ReplayMemory(self.plan, CODEC)
    ranking, self.ranking = self.ranking, Ranking(self.memory)
    rows = before.take(before.slots)
    assert self.memory.restore(before.state(), rows, np.ones(len(rows), bool)) == len(rows)
    self.ranking.restore(ranking.state())
    self.seen = []
    self.check()


def _play(plan: Plan, ops: list[Op], alpha: float) -> None:
  checked = Checked(with_ranks(plan, alpha), alpha)
  generator = np.random.default_rng(0)
  pending: list[Row] = []
  numbers: dict[int, int] = {}
  for op in ops:
    pending.append(row_of(checked.oracle, pending, op, numbers))
    if op.cut:
      checked.add(pending)
      pending = []
      for _ in range(op.updates):
        checked.update(generator)
      if op.pick % 3 == 0:
        checked.rank_all()
      if op.updates == 2 and op.pick == 1:
        checked.restart()


@settings(
  max_examples=3 if os.environ.get(PLAIN) else 30,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(HealthCheck),
  phases=(Phase.generate,),
)
@given(plans(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.7, 1.0]))
def test_weights_are_those_of_the_oracle_before_and_after_a_restart(plan: Plan, seed: int, alpha: float) -> None:
  _play(plan, random_ops(seed), alpha)


@settings(deadline=None, max_examples=60)
@example([])
@example([math.inf, 2.0**-149, 0.0, math.inf, 1e9, 2.0**-149])
@given(st.lists(st.one_of(st.floats(0, allow_nan=False, width=32), st.sampled_from([0.0, 1.0, 1.5])), max_size=40))
def test_sorting_is_that_of_a_sorted_list_for_an_oracle_of_ranks(errors: list[float]) -> None:
  ascending, ranks = ranked(np.array(errors, np.float32))
  assert ascending.tolist() == sorted(errors)
  assert ranks.tolist() == [rank_of(error, errors) for error in errors]


def test_many_errors_have_the_ranks_of_a_stable_sort() -> None:
  errors = np.random.default_rng(0).exponential(size=100_000).astype(np.float32)
  ascending, ranks = ranked(errors)
  np.testing.assert_array_equal(ascending, np.sort(errors))
  np.testing.assert_array_equal(ranks, stats.rankdata(-errors, method="min"))


def _ranked_memory(rows: int, alpha: float = 0.5, capacity: int = 10) -> tuple[ReplayMemory, Ranking]:
  memory = memory_of(capacity=capacity, selectors=("ranked",), exponents=(alpha,), tracks_extremes=True)
  ranking = Ranking(memory)
  memory.add(packed(episode_rows(rows)), [LARGEST_PRIORITY])
  return memory, ranking


def _set(memory: ReplayMemory, ranking: Ranking, errors: dict[int, float]) -> None:
  """Sets the errors of rows, by their places in the table."""
  handles = memory.handles_of(memory.contents(0)[list(errors)])
  ranking.update(handles, np.array(list(errors.values()), np.float32))


def test_ranks_ties_and_rows_that_were_never_learned_from_by_hand() -> None:
  memory, ranking = _ranked_memory(5)
  assert memory.weights(0).tolist() == [1.0] * 5
  _set(memory, ranking, {0: 2.0, 1: 5.0, 2: 2.0, 3: 0.0})
  # Nothing was ranked yet.
  assert memory.weights(0).tolist() == [1.0] * 5
  ranking.rank_all()
  # The last row comes first, and two share place 3.
  assert memory.weights(0) == pytest.approx([3**-0.5, 2**-0.5, 3**-0.5, 5**-0.5, 1.0])
  _set(memory, ranking, {4: 3.0, 3: 2.0})
  # Among infinity, 5, 2, 2 and 0. The others keep their ranks.
  assert memory.weights(0) == pytest.approx([3**-0.5, 2**-0.5, 3**-0.5, 3**-0.5, 3**-0.5])
  ranking.rank_all()
  assert memory.weights(0) == pytest.approx([3**-0.5, 1.0, 3**-0.5, 3**-0.5, 2**-0.5])


def test_an_evicted_row_has_no_rank_and_a_new_one_the_first_by_hand() -> None:
  memory, ranking = _ranked_memory(3, capacity=3)
  gone = memory.handles_of(memory.contents(0)[:1])
  _set(memory, ranking, {0: 9.0, 1: 1.0, 2: 2.0})
  ranking.rank_all()
  memory.add(packed(episode_rows(4)[3:]), [LARGEST_PRIORITY])
  assert memory.weights(0) == pytest.approx([3**-0.5, 2**-0.5, 1.0])
  ranking.update(gone, np.array([0.5], np.float32))
  assert memory.weights(0) == pytest.approx([3**-0.5, 2**-0.5, 1.0])
  _set(memory, ranking, {2: 0.5})
  ranking.rank_all()
  assert memory.weights(0) == pytest.approx([2**-0.5, 1.0, 3**-0.5])


def test_a_row_has_one_error_and_a_rank_in_every_table_by_hand() -> None:
  memory = memory_of({"goal": 5}, [("goal", 2)], selectors=("ranked",) * 2, exponents=(1.0,) * 2)
  ranking = Ranking(memory)
  memory.add(packed(episode_rows(4, events={3: 1})), [LARGEST_PRIORITY] * 2)
  slots = memory.contents(0)
  ranking.update(memory.handles_of(slots), np.array([4.0, 3.0, 1.0, 2.0], np.float32))
  ranking.rank_all()
  assert memory.weights(0) == pytest.approx([1.0, 1 / 2, 1 / 4, 1 / 3])
  assert memory.weights(1) == pytest.approx([1 / 2, 1.0])
  ranking.update(memory.handles_of(slots[2:3]), np.array([3.5], np.float32))
  assert memory.weights(0) == pytest.approx([1.0, 1 / 2, 1 / 2, 1 / 3])
  assert memory.weights(1) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_rows_are_drawn_as_often_as_their_ranks_say(alpha: float) -> None:
  memory, ranking = _ranked_memory(8, alpha)
  errors = [0.0, 4.0, 1e-6, 1e8, 3.0, 4.0, 0.0, 10.0]
  _set(memory, ranking, dict(enumerate(errors)))
  ranking.rank_all()
  draws = 40_000
  drawn = memory.draw(np.array([[draws]]), np.random.default_rng(1))
  expected = np.array([rank_of(error, errors) ** -alpha for error in errors])
  expected *= draws / expected.sum()
  counts = np.bincount(drawn.slots[0], minlength=8)[memory.contents(0)]
  assert stats.chisquare(counts, expected).pvalue > 0.01
  np.testing.assert_allclose(drawn.probabilities[0], expected[drawn.slots[0]] / draws)


def test_importance_weights_undo_the_draws_by_hand() -> None:
  memory, ranking = _ranked_memory(2, alpha=1.0)
  _set(memory, ranking, {0: 1.0, 1: 2.0})
  ranking.rank_all()
  # P is 1/3 and 2/3, so N P is 2/3 and 4/3.
  assert memory.least_ratios.tolist() == pytest.approx([2 / 3])
  drawn = memory.draw(np.array([[20]]), np.random.default_rng(0))
  weights = importance_weights(
    drawn.probabilities, drawn.table_sizes, np.ones((1, 20), bool), 1.0, float(memory.least_ratios[0])
  )
  assert set(drawn.slots[0].tolist()) == {0, 1}
  np.testing.assert_allclose(weights, np.where(drawn.slots == 0, 1.0, 0.5))


def test_priorities_of_all_rows_can_be_set_in_a_prioritised_table_alone() -> None:
  for memory, count in ((_ranked_memory(3)[0], 2), (memory_of(), 0)):
    with pytest.raises(ValueError, match=f"there are {count} priorities for the [03] rows of a prioritised table"):
      memory.set_all_priorities(0, np.ones(count))

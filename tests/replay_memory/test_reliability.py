"""ReaPER's criteria: numbers by hand, and everything against an oracle that recomputes Algorithm 2 for random streams of rows."""

import dataclasses
import math
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy import stats

from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from replay_memory.reliability import Reliability
from tests.replay_memory.making import episode_rows, keys_in, memory_of, packed
from tests.replay_memory.oracle import Key, Oracle, Row
from tests.replay_memory.reliability_oracle import ReliabilityOracle
from tests.replay_memory.streams import PLAIN, Op, plans, random_ops, row_of
from tests.serving import CODEC

_ALPHA, _OMEGA = 0.4, 0.2


def prioritized(plan: Plan) -> Plan:
  """The plan with ReaPER in every table."""
  tables = len(plan.names)
  return dataclasses.replace(
    plan,
    selectors=("prioritized",) * tables,
    exponents=(1.0,) * tables,
    tracks_episodes=True,
    tracks_extremes=True,
  )


class Checked:
  """A memory with ReaPER's criteria, and the oracle of both."""

  def __init__(self, plan: Plan, alpha: float = _ALPHA, omega: float = _OMEGA):
    self.plan, self.alpha, self.omega = plan, alpha, omega
    self.memory = ReplayMemory(plan, CODEC)
    self.reliability = Reliability(self.memory, alpha, omega)
    self.oracle = Oracle(plan)
    self.expected = ReliabilityOracle(self.oracle, alpha, omega)
    self.seen: list[tuple[Key, np.uint64]] = []

  def add(self, rows: list[Row]) -> None:
    criteria = self.reliability.new_criteria
    assert criteria.tolist() == pytest.approx(self.expected.new_criteria(), rel=1e-9)
    self.memory.add(packed(rows), criteria)
    for row in rows:
      self.oracle.add(row, criteria.tolist())
    self.expected.note_added([row.key for row in rows])
    self.check()

  def update(self, generator: np.random.Generator) -> None:
    """Draws rows, and gives errors to some of them and to some drawn before, which may be gone."""
    if not self.memory.sizes.all():
      return
    drawn = self.memory.draw(generator.integers(1, 4, (1, len(self.plan.names))), generator)
    self.seen += zip(keys_in(self.memory, drawn.slots[0]), drawn.handles[0], strict=True)
    chosen = [self.seen[index] for index in generator.integers(0, len(self.seen), generator.integers(0, 8))]
    errors = generator.uniform(0, 3, len(chosen)) * (generator.random(len(chosen)) > 0.2)
    self.set_errors(chosen, errors)

  def set_errors(self, chosen: list[tuple[Key, np.uint64]], errors: np.ndarray) -> None:
    self.reliability.update(np.array([handle for _, handle in chosen], np.uint64), errors)
    known = zip([key for key, _ in chosen], errors.tolist(), strict=True)
    self.expected.update({key: error for key, error in known if key in self.oracle.stored})
    self.check()

  def check(self) -> None:
    state, sizes = self.memory.state(), self.memory.sizes
    for table, keys in enumerate(self.oracle.tables):
      weights = [self.oracle.weights[table][key] for key in keys]
      assert state[f"weights/{table}"].tolist() == pytest.approx(weights, rel=1e-9, abs=1e-12)
      assert self.memory.largest_weights[table] == pytest.approx(max(weights, default=0.0), rel=1e-9)
      drawable = [weight for weight in weights if weight > 0]
      least = sizes[table] * min(drawable) / math.fsum(weights) if drawable else 1.0
      assert self.memory.least_ratios[table] == pytest.approx(least, rel=1e-9)

  def restart(self) -> None:
    """Goes on with a memory restored from the state; the one before and it must stay the same to the last digit."""
    before, self.memory = self.memory, ReplayMemory(self.plan, CODEC)
    reliability, self.reliability = self.reliability, Reliability(self.memory, self.alpha, self.omega)
    rows = before.take(before.slots)
    assert self.memory.restore(before.state(), rows, np.ones(len(rows), bool)) == len(rows)
    assert self.reliability.new_criteria.tolist() == reliability.new_criteria.tolist()
    nothing = np.empty(0, np.uint64), np.empty(0)
    for each in (reliability, self.reliability):
      each.update(*nothing)
    self.expected.update({})
    states = before.state(), self.memory.state()
    for table in range(len(self.plan.names)):
      assert states[0][f"weights/{table}"].tolist() == states[1][f"weights/{table}"].tolist()
    self.seen = []
    self.check()


def _play(plan: Plan, ops: list[Op], alpha: float, omega: float) -> None:
  checked = Checked(prioritized(plan), alpha, omega)
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
      if op.updates == 2 and op.pick == 0:
        checked.restart()


@settings(
  max_examples=5 if os.environ.get(PLAIN) else 60,
  deadline=None,
  derandomize=True,
  database=None,
  suppress_health_check=list(HealthCheck),
  phases=(Phase.generate,),
)
@given(plans(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.0, 0.2, 1.0]))
def test_criteria_are_those_of_the_oracle_before_and_after_a_restart(
  plan: Plan, seed: int, alpha: float, omega: float
) -> None:
  _play(plan, random_ops(seed), alpha, omega)


def _reliable_memory(capacity: int = 10, alpha: float = 1.0, omega: float = 1.0) -> tuple[ReplayMemory, Reliability]:
  memory = memory_of(
    capacity=capacity, selectors=("prioritized",), exponents=(1.0,), tracks_episodes=True, tracks_extremes=True
  )
  return memory, Reliability(memory, alpha, omega)


def _criteria(memory: ReplayMemory) -> list[float]:
  return list(memory.state()["weights/0"])


def _set_all(memory: ReplayMemory, reliability: Reliability, errors: list[float]) -> None:
  slots = memory.contents(0)
  handles = (memory.arrays.rows.sequence[slots] * memory.plan.slots + slots).astype(np.uint64)
  reliability.update(handles, np.array(errors))


def test_criteria_of_an_ended_and_an_open_episode_by_hand() -> None:
  memory, reliability = _reliable_memory()
  memory.add(packed(episode_rows(3, 1, ended="terminated")))
  memory.add(packed(episode_rows(2, 2)))
  _set_all(memory, reliability, [1.0, 2.0, 1.0, 4.0, 1.0])
  # R is 1/4, 3/4, 1 in the episode that ended. F is 5, the open one's sum: R is 4/5 and 1.
  assert _criteria(memory) == pytest.approx([1 / 4, 6 / 4, 1.0, 16 / 5, 1.0])
  _set_all(memory, reliability, [1.0, 2.0, 5.0, 4.0, 1.0])
  # F is 8 now, the ended one's sum.
  assert _criteria(memory) == pytest.approx([1 / 8, 6 / 8, 5.0, 16 / 8, 5 / 8])


def test_exponents_by_hand() -> None:
  memory, reliability = _reliable_memory(alpha=0.5, omega=0.25)
  memory.add(packed(episode_rows(2, 1, ended="truncated")))
  _set_all(memory, reliability, [1.0, 15.0])
  assert _criteria(memory) == pytest.approx([0.5, 15**0.5])


def test_of_a_partly_evicted_episode_what_is_left_is_summed_by_hand() -> None:
  memory, reliability = _reliable_memory(capacity=4)
  memory.add(packed(episode_rows(4, 1, ended="terminated")))
  _set_all(memory, reliability, [6.0, 1.0, 2.0, 1.0])
  memory.add(packed(episode_rows(1, 2)), reliability.new_criteria)
  # As they were, until the next update. The largest was the first row's, which is gone now.
  assert _criteria(memory) == pytest.approx([7 / 10, 18 / 10, 1.0, 36 / 10])
  reliability.update(np.empty(0, np.uint64), np.empty(0))
  # The new row has the largest error, 6, which is F, too: the sum of its episode.
  assert _criteria(memory) == pytest.approx([1 / 4, 6 / 4, 1.0, 6.0])


def test_without_any_error_nothing_has_a_weight_by_hand() -> None:
  memory, reliability = _reliable_memory()
  memory.add(packed(episode_rows(2, 1, ended="terminated")))
  _set_all(memory, reliability, [0.0, 0.0])
  assert _criteria(memory) == [0.0, 0.0]
  assert reliability.new_criteria.tolist() == [1.0]
  assert memory.least_ratios.tolist() == [1.0]


def test_rows_are_drawn_as_often_as_their_criteria_say() -> None:
  memory, reliability = _reliable_memory(alpha=_ALPHA, omega=_OMEGA)
  memory.add(packed(episode_rows(5, 1, ended="terminated")))
  memory.add(packed(episode_rows(3, 2)))
  _set_all(memory, reliability, [1.0, 0.5, 3.0, 0.0, 2.0, 0.2, 4.0, 1.0])
  draws = 40_000
  drawn = memory.draw(np.array([[draws]]), np.random.default_rng(1))
  expected = np.array(_criteria(memory))
  counts = np.bincount(drawn.slots[0], minlength=8)[memory.contents(0)]
  expected *= draws / expected.sum()
  assert counts[expected == 0].sum() == 0
  drawable = expected > 0
  assert stats.chisquare(counts[drawable], expected[drawable]).pvalue > 0.01
  np.testing.assert_allclose(drawn.probabilities[0], expected[drawn.slots[0]] / draws)


def test_a_plan_that_tracks_nothing_is_refused() -> None:
  with pytest.raises(ValueError, match="must track"):
    Reliability(memory_of(), _ALPHA, _OMEGA)

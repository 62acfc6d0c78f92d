"""Return estimates and ratios in a memory of whole episodes, by hand and against plain Python."""

import dataclasses
import math
import os
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import UserError
from replay_memory.memory import ReplayMemory
from replay_memory.plan import Plan
from replay_memory.ratios import Ratios
from replay_memory.returns import Returns, RewardScale, Values
from tests.replay_memory.making import contents, episode_rows, keys_in, packed, plan_of
from tests.replay_memory.oracle import Key, Row
from tests.replay_memory.streams import PLAIN
from tests.serving import CODEC, make_config

_GAMMA = 0.5


def _plan(capacity: int = 20) -> Plan:
  plan = plan_of(make_config({}, (), capacity))
  return dataclasses.replace(plan, whole_episodes=True, longest_history=capacity, slots=3 * capacity)


def _rows(rows: list[Row], rewards: list[float]) -> np.ndarray:
  """Packed rows with rewards, whose discount is 0 for the last step of an episode that terminates."""
  made = packed(rows)
  fields = {field.name: field for field in CODEC.fields}
  made[:, fields["reward"].offset] = rewards
  made[:, fields["discount"].offset] = [0.0 if row.ended == "terminated" else 1.0 for row in rows]
  return made


class Estimated:
  """A memory with estimates, whose model gives values that a test sets."""

  def __init__(self, plan: Plan, gamma: float = _GAMMA):
    self.memory = ReplayMemory(plan, CODEC)
    self.ratios = Ratios(self.memory)
    self.returns = Returns(self.memory, CODEC, self.ratios, gamma)

  def enter(
    self,
    values: Mapping[Key, float],
    next_values: Mapping[Key, float],
    scale: float = 1.0,
    action_values: Mapping[Key, float] | None = None,
  ) -> list[Key]:
    slots = self.returns.new_slots()
    keys = keys_in(self.memory, slots)
    self.returns.enter(slots, _values(keys, values, next_values, action_values), scale)
    return keys

  def learn(
    self,
    keys: list[Key],
    values: Mapping[Key, float],
    next_values: Mapping[Key, float],
    log_ratios: Mapping[Key, float],
    scale: float = 1.0,
    action_values: Mapping[Key, float] | None = None,
  ) -> None:
    slots = np.array([self.slot_of(key) for key in keys], np.int64)
    self.ratios.set(slots, _floats(log_ratios, keys), np.zeros(len(keys), np.float32))
    self.returns.learned(slots, _values(keys, values, next_values, action_values), scale)

  def slot_of(self, key: Key) -> int:
    slots = self.memory.slots
    return int(slots[keys_in(self.memory, slots).index(key)])

  def q_ret(self) -> dict[Key, float]:
    slots = self.memory.contents(0)
    return dict(zip(keys_in(self.memory, slots), self.returns.q_ret[slots].tolist(), strict=True))


def _floats(values: Mapping[Key, float], keys: list[Key]) -> np.ndarray:
  return np.array([values[key] for key in keys], np.float32)


def _values(
  keys: list[Key],
  values: Mapping[Key, float],
  next_values: Mapping[Key, float],
  action_values: Mapping[Key, float] | None,
) -> Values:
  """Without advantages, Q is V."""
  return Values(_floats(values, keys), _floats(action_values or values, keys), _floats(next_values, keys))


def test_returns_of_a_terminated_and_a_truncated_episode_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(
    _rows([*episode_rows(3, 1, ended="terminated"), *episode_rows(2, 2, ended="truncated")], [1, 2, 4, 8, 16])
  )
  keys = made.enter(
    {(1, 0): 3, (1, 1): 5, (1, 2): 7, (2, 0): 1, (2, 1): 2},
    dict.fromkeys([(1, 0), (1, 1), (1, 2), (2, 0)], 9) | {(2, 1): 6},
  )
  assert keys == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
  # With rho = 1 everywhere V_tbc is Q_ret. The second one's last step adds half of V(s_T) = 6.
  assert made.q_ret() == {(1, 2): 4, (1, 1): 2 + 4 / 2, (1, 0): 1 + 4 / 2, (2, 1): 16 + 3, (2, 0): 8 + 19 / 2}


def test_a_small_ratio_cuts_what_comes_after_it_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(3, 1, ended="terminated"), [1, 2, 4]))
  none = dict.fromkeys([(1, 0), (1, 1), (1, 2)], 0.0)
  made.enter(none, none)
  # V_tbc,1 = 10 + 1/4 (Q_ret,1 - 10) = 10 - 6/4; a ratio above 1 counts as 1.
  made.learn([(1, 1)], {(1, 1): 10}, none, {(1, 1): math.log(0.25)})
  assert made.q_ret() == pytest.approx({(1, 2): 4, (1, 1): 4, (1, 0): 1 + 8.5 / 2})
  made.learn([(1, 1)], {(1, 1): 10}, none, {(1, 1): math.log(4.0)})
  assert made.q_ret() == pytest.approx({(1, 2): 4, (1, 1): 4, (1, 0): 1 + 4 / 2})


def test_an_advantage_is_no_error_of_the_value_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(2, 1, ended="terminated"), [1, 4]))
  none = dict.fromkeys([(1, 0), (1, 1)], 0.0)
  made.enter(none, none, action_values={(1, 0): 0, (1, 1): 3})
  # V_tbc,1 = 0 + (Q_ret,1 - Q_1) = 4 - 3.
  assert made.q_ret() == {(1, 1): 4, (1, 0): 1 + 1 / 2}
  # V_tbc,1 = 10 + 1/4 (4 - 12).
  made.learn([(1, 1)], {(1, 1): 10}, none, {(1, 1): math.log(0.25)}, action_values={(1, 1): 12})
  assert made.q_ret() == pytest.approx({(1, 1): 4, (1, 0): 1 + 8 / 2})


def test_a_new_scale_of_rewards_reaches_all_steps_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(2, 1, ended="truncated"), [6.0, 8.0]))
  made.enter({(1, 0): 0, (1, 1): 0}, {(1, 0): 0, (1, 1): 2})
  scale = RewardScale(made.memory, CODEC)
  scale.measure()
  assert scale.value == pytest.approx(math.sqrt(50))
  made.returns.sweep_all(2.0)
  assert made.q_ret() == {(1, 1): 4 + 1, (1, 0): 3 + 5 / 2}


def test_a_gap_ends_what_follows_from_a_step_by_hand() -> None:
  made = Estimated(_plan())
  rows = [row for row in episode_rows(4, 1, ended="terminated") if row.step != 2]
  made.memory.add(_rows(rows, [1, 2, 8]))
  none = {(1, step): 0.0 for step in (0, 1, 3)}
  made.enter(none, {**none, (1, 1): 6.0})
  assert made.q_ret() == {(1, 3): 8, (1, 1): 2 + 3, (1, 0): 1 + 5 / 2}


def test_the_share_of_far_steps_counts_both_sides_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(5, 1, ended="terminated"), [0] * 5))
  slots = made.memory.contents(0)
  ratios = np.log(np.array([5.0, 0.2, 4.9, 0.21, 1.0])).astype(np.float32)
  made.ratios.set(slots, ratios, np.arange(5, dtype=np.float32))
  # A ratio of exactly c_max is far-policy, in float32 as in memory.
  assert made.ratios.far_share(math.exp(float(ratios[0]))) == pytest.approx(2 / 5)
  assert made.ratios.far_share(5.5) == 0.0
  assert made.ratios.mean_divergence() == 2.0


@pytest.mark.parametrize("whole", [True, False])
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1))
def test_the_share_of_far_steps_is_that_of_a_plain_count_whatever_has_changed(whole: bool, seed: int) -> None:
  generator = np.random.default_rng(seed)
  memory = ReplayMemory(dataclasses.replace(_plan(capacity=12), whole_episodes=whole), CODEC)
  ratios = Ratios(memory)
  limit, episode = 4.0, 0
  for _ in range(30):
    if generator.random() < 0.2 or not len(memory.contents(0)):
      episode += 1
      memory.add(packed(episode_rows(int(generator.integers(1, 6)), episode, ended="terminated")))
    # Also of rows that only wait for their episode's end, or that the table has evicted.
    used = memory.slots[generator.integers(len(memory.slots), size=4)]
    ratios.set(used, generator.normal(scale=1.5, size=4).astype(np.float32), np.zeros(4, np.float32))
    if generator.random() < 0.7:
      limit = float(generator.uniform(1.5, 5.0)) if generator.random() < 0.2 else 1 + 0.99 * (limit - 1)
      far = np.abs(ratios.log_ratio[memory.contents(0)]) >= math.log(limit)
      assert ratios.far_share(limit) == far.mean()


def test_the_histogram_of_ratios_counts_what_lies_beyond_in_its_last_bins_by_hand() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(5, 1, ended="terminated"), [0] * 5))
  ratios = np.array([-np.inf, -0.05, 0.05, 0.07, 700.0], np.float32)
  made.ratios.set(made.memory.contents(0), ratios, np.zeros(5, np.float32))
  counts, edges = made.ratios.histogram()
  found = {round(float(edges[place]), 1): int(counts[place]) for place in np.flatnonzero(counts)}
  assert found == {-6.0: 1, -0.1: 1, 0.0: 2, 5.9: 1}


def test_episodes_enter_when_they_end_and_leave_as_a_whole_by_hand() -> None:
  memory = ReplayMemory(_plan(capacity=5), CODEC)
  memory.add(packed(episode_rows(2, 1)))
  assert contents(memory) == {"default": []}
  memory.add(packed([*episode_rows(3, 2, ended="terminated"), Row(1, 2, 0, "truncated")]))
  assert contents(memory) == {"default": [(1, 0), (1, 1), (1, 2)]}
  memory.add(packed(episode_rows(2, 3, ended="terminated")))
  assert contents(memory) == {"default": [(1, 0), (1, 1), (1, 2), (3, 0), (3, 1)]}
  memory.add(packed([Row(3, 2, 0, "terminated"), *episode_rows(1, 4, ended="terminated")]))
  assert contents(memory) == {"default": [(3, 0), (3, 1), (4, 0)]}
  assert memory.counts.repeated == 1  # A step after its episode's end.


def test_an_episode_without_rows_for_long_has_ended_by_hand() -> None:
  memory = ReplayMemory(_plan(capacity=4), CODEC)
  memory.add(packed([*episode_rows(2, 1), *episode_rows(4, 2)]))
  assert contents(memory) == {"default": []}
  memory.add(packed(episode_rows(1, 3)))
  assert contents(memory) == {"default": [(1, 0), (1, 1)]}


def test_an_episode_that_does_not_fit_is_refused_with_a_sentence() -> None:
  memory = ReplayMemory(_plan(capacity=4), CODEC)
  with pytest.raises(UserError, match="more than the 4 transitions that table 'default' holds"):
    memory.add(packed(episode_rows(5, 1)))


@pytest.mark.parametrize("whole", [True, False])
def test_a_checkpoint_of_another_unit_is_refused_with_a_sentence(whole: bool) -> None:
  memory = ReplayMemory(dataclasses.replace(_plan(), whole_episodes=whole), CODEC)
  other = ReplayMemory(dataclasses.replace(_plan(), whole_episodes=not whole), CODEC)
  rows, found = np.empty((0, CODEC.width), np.float32), np.empty(0, bool)
  with pytest.raises(
    UserError, match=r"whose replay\.unit is '\w+', and the config's is '\w+': resume with the one that"
  ):
    other.restore(memory.state(), rows, found)


def test_estimates_need_whole_episodes() -> None:
  memory = ReplayMemory(dataclasses.replace(_plan(), whole_episodes=False), CODEC)
  with pytest.raises(ValueError, match="whole episodes"):
    Returns(memory, CODEC, Ratios(memory), _GAMMA)


class Oracle:
  """Episodes as lists of steps; every estimate is worked out anew from the last values and ratios, in the paper's order."""

  def __init__(self, gamma: float):
    self.gamma = gamma
    self.rewards: dict[Key, float] = {}
    self.discounts: dict[Key, float] = {}
    self.value: dict[Key, float] = {}
    self.action_value: dict[Key, float] = {}
    self.end_value: dict[Key, float] = {}
    self.log_ratio: dict[Key, float] = {}

  def q_ret(self, keys: list[Key], scale: float) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for episode, step in sorted(keys, reverse=True):
      key, after = (episode, step), (episode, step + 1)
      if after in keys:
        cut = min(1.0, math.exp(self.log_ratio[after]))
        bootstrapped = self.value[after] + cut * (found[after] - self.action_value[after])
      else:
        bootstrapped = self.end_value[key]
      found[key] = self.rewards[key] / scale + self.gamma * self.discounts[key] * bootstrapped
    return found


@settings(max_examples=6 if os.environ.get(PLAIN) else 30, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1))
def test_estimates_are_those_of_the_oracle_whichever_steps_are_used(seed: int) -> None:
  generator = np.random.default_rng(seed)
  gamma, scale = 0.9, 1.0
  made, oracle = Estimated(_plan(capacity=30), gamma), Oracle(gamma)
  for episode in range(8):
    length = int(generator.integers(1, 12))
    rows = episode_rows(length, episode, ended=str(generator.choice(["terminated", "truncated"])))
    if length > 3 and generator.random() < 0.3:
      del rows[int(generator.integers(1, length - 1))]  # A gap.
    rewards = generator.normal(size=len(rows)).astype(np.float32)
    keys = [row.key for row in rows]
    for row, reward in zip(rows, rewards.tolist(), strict=True):
      oracle.rewards[row.key], oracle.discounts[row.key] = reward, 0.0 if row.ended == "terminated" else 1.0
    values, action_values, next_values = (_random(keys, generator) for _ in range(3))
    oracle.value |= values
    oracle.action_value |= action_values
    oracle.end_value |= next_values
    oracle.log_ratio |= dict.fromkeys(keys, 0.0)
    made.memory.add(_rows(rows, rewards.tolist()))
    assert made.enter(values, next_values, scale, action_values) == keys
    held = keys_in(made.memory, made.memory.contents(0))
    for _ in range(int(generator.integers(0, 3))):
      used = [held[index] for index in generator.integers(len(held), size=5)]
      values, action_values, next_values, ratios = (_random(used, generator) for _ in range(4))
      made.learn(used, values, next_values, ratios, scale, action_values)
      oracle.value |= values
      oracle.action_value |= action_values
      oracle.log_ratio |= ratios
      oracle.end_value |= next_values
    if generator.random() < 0.3:
      scale = float(generator.uniform(0.5, 2.0))
      made.returns.sweep_all(scale)
    expected = oracle.q_ret(held, scale)
    assert made.q_ret() == pytest.approx(expected, abs=1e-5, rel=1e-5)
    before = made.q_ret()
    made.returns.sweep_all(scale)
    assert made.q_ret() == before  # A second sweep changes nothing.


def _random(keys: list[Key], generator: np.random.Generator) -> dict[Key, float]:
  return {key: float(np.float32(generator.normal())) for key in keys}


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=15))
def test_where_the_policy_is_its_behaviour_estimates_are_discounted_returns_to_the_end(rewards: list[float]) -> None:
  made = Estimated(_plan())
  rows = episode_rows(len(rewards), 1, ended="terminated")
  made.memory.add(_rows(rows, rewards))
  values = {row.key: 100.0 + row.step for row in rows}
  made.enter(values, values)
  total = 0.0
  for row in reversed(rows):
    total = rewards[row.step] + _GAMMA * total
    assert made.q_ret()[row.key] == pytest.approx(total, rel=1e-5, abs=1e-5)


def test_estimates_come_back_with_a_checkpoint() -> None:
  made = Estimated(_plan())
  made.memory.add(_rows(episode_rows(3, 1, ended="truncated"), [1, 2, 4]))
  made.enter({(1, 0): 1, (1, 1): 2, (1, 2): 3}, {(1, 0): 0, (1, 1): 0, (1, 2): 5})
  made.learn([(1, 1)], {(1, 1): 2}, {(1, 1): 0}, {(1, 1): -0.5})
  made.memory.add(_rows(episode_rows(2, 2), [1, 1]))
  again = Estimated(_plan())
  rows = made.memory.take(made.memory.slots)
  again.memory.restore(made.memory.state(), rows, np.ones(len(rows), bool))
  assert again.returns.new_slots().tolist() == []
  assert again.q_ret() == made.q_ret()
  for each in (made, again):
    each.learn([(1, 2)], {(1, 2): 7}, {(1, 2): 9}, {(1, 2): -1.0})
    each.memory.add(_rows([Row(2, 2, 0, "terminated")], [3]))
    assert each.enter(dict.fromkeys([(2, 0), (2, 1), (2, 2)], 1.0), dict.fromkeys([(2, 0), (2, 1), (2, 2)], 0.0))
  assert again.q_ret() == made.q_ret()

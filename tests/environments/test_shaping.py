"""Potential-based shaping: its rewards, that it changes no best policy, and the paper's potentials."""

import dataclasses
import textwrap
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import EnvironmentConfig, UserError, from_json, load_config, override, to_json
from environments import (
  EventEnvironment,
  Shaping,
  ThreeRooms,
  make_event_environment,
  make_potential,
  paper_potentials,
  shaping_reward,
)
from environments.potentials import AtCells, Manhattan, Wall

MODULE = """
  import numpy

  def first_number(observation, info, scale=1.0):
    return numpy.float32(scale * observation[0])

  def broken(observation, info):
    return info["height"]

  def returns(observation, info, value=None):
    return value

  def one_parameter(observation):
    return 0.0

  class Best:
    def __init__(self, best):
      self.best = best

    def __call__(self, observation, info):
      return float(observation == self.best)
"""


@pytest.fixture
def user_potentials(tmp_path, monkeypatch):
  (tmp_path / "user_potentials.py").write_text(textwrap.dedent(MODULE))
  monkeypatch.syspath_prepend(str(tmp_path))


def test_shaping_rewards_by_hand():
  assert shaping_reward(0.5, 3.0, 8.0) == 1.0
  shaping = Shaping(lambda observation, info: observation, discount=0.5)
  shaping.reset(2.0, {})
  assert [shaping(8.0, {}, False), shaping(6.0, {}, False), shaping(4.0, {}, False)] == [2.0, -5.0, -4.0]
  # The next episode knows nothing of this one.
  shaping.reset(1.0, {})
  assert shaping(2.0, {}, False) == 0.0


def test_the_potential_counts_where_an_episode_is_cut_off_and_not_where_it_terminates():
  shaping = Shaping(lambda observation, info: 10.0, discount=0.5)
  shaping.reset(None, {})
  assert shaping(None, {}, terminated=False) == -5.0
  assert shaping(None, {}, terminated=True) == -10.0


def test_the_potential_is_not_asked_about_a_terminal_state():
  shaping = Shaping(lambda observation, info: info["height"], discount=0.5)
  shaping.reset(None, {"height": 2})
  assert shaping(None, {}, terminated=True) == -2.0


@settings(deadline=None)
@given(
  st.lists(st.floats(-5, 5), min_size=2, max_size=12),
  st.lists(st.floats(-5, 5), min_size=11, max_size=11),
  st.floats(0, 1),
  st.booleans(),
)
def test_the_discounted_sum_telescopes(potentials, rewards, discount, terminated):
  shaping = Shaping(lambda observation, info: observation, discount)
  shaping.reset(potentials[0], {})
  last = len(potentials) - 2
  total = plain = 0.0
  for t, potential in enumerate(potentials[1:]):
    plain += discount**t * rewards[t]
    total += discount**t * (rewards[t] + shaping(potential, {}, terminated and t == last))
  end = 0.0 if terminated else discount ** (last + 1) * potentials[-1]
  assert total - plain == pytest.approx(end - potentials[0], abs=1e-9)


def value_iteration(reward, transition, terminal, discount):
  """Q*, float64 [S, A], for rewards [S, A, S] and transitions [S, A, S] into states of which some end the episode."""
  values = np.zeros(len(terminal))
  for _ in range(2_000):
    q = (transition * (reward + discount * np.where(terminal, 0.0, values))).sum(axis=2)
    values = q.max(axis=1)
  return q


@pytest.mark.parametrize("seed", range(5))
def test_the_best_policies_of_a_random_problem_stay_the_same_and_q_falls_by_the_potential(seed):
  rng = np.random.default_rng(seed)
  states, actions, discount = 7, 3, 0.9
  transition = rng.dirichlet(np.full(states, 0.3), (states, actions))
  reward = rng.normal(size=(states, actions, states))
  terminal = np.arange(states) >= states - 2
  potential = rng.normal(scale=10, size=states)
  shaped = np.empty_like(reward)
  for s in range(states):
    for t in range(states):
      shaping = Shaping(lambda observation, info: potential[observation], discount)
      shaping.reset(s, {})
      shaped[s, :, t] = reward[s, :, t] + shaping(t, {}, terminal[t])
  plain_q = value_iteration(reward, transition, terminal, discount)
  shaped_q = value_iteration(shaped, transition, terminal, discount)
  inner = ~terminal
  np.testing.assert_allclose(shaped_q[inner], (plain_q - potential[:, None])[inner], atol=1e-8)
  np.testing.assert_array_equal(shaped_q[inner].argmax(axis=1), plain_q[inner].argmax(axis=1))
  # With the potential of the terminal states left in, the same does not hold: this is why it is 0 there.
  naive = reward + discount * potential[None, None, :] - potential[:, None, None]
  naive_q = value_iteration(naive, transition, terminal, discount)
  assert np.abs(naive_q - (plain_q - potential[:, None]))[inner].max() > 0.1


class Tables(gymnasium.Env):
  """A deterministic problem of six states in a ring and two actions; state 5 ends it. The test sets the first state."""

  NEXT = np.array([[1, 3], [2, 0], [5, 0], [4, 2], [0, 5], [5, 5]])
  REWARD = np.array([[0.0, -1.0], [0.5, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0]])

  def __init__(self):
    self.observation_space = spaces.Discrete(6)
    self.action_space = spaces.Discrete(2)
    self.start = 0

  def reset(self, *, seed=None, options=None):
    self.state = self.start
    return self.state, {}

  def step(self, action):
    reward = self.REWARD[self.state, action]
    self.state = int(self.NEXT[self.state, action])
    return self.state, reward, self.state == 5, False, {}


def test_the_environment_shapes_every_step_such_that_the_best_policy_stays():
  potential, discount = np.array([0.0, -3.0, 4.0, 7.0, 1.0, 100.0]), 0.8
  gym_env = Tables()
  env = EventEnvironment(gym_env, shaping=Shaping(lambda observation, info: potential[observation], discount))
  shaped = np.zeros((6, 2, 6))
  for start in range(5):
    for action in range(2):
      gym_env.start = start
      first, step = env.reset(), env.step(action)
      assert first.shaping == 0.0
      assert step.reward == np.float32(Tables.REWARD[start, action])
      shaped[start, action, step.observation] = step.reward + step.shaping
  transition = np.eye(6)[Tables.NEXT]
  terminal = np.arange(6) == 5
  plain = value_iteration(Tables.REWARD[:, :, None] * np.ones(6), transition, terminal, discount)
  q = value_iteration(shaped, transition, terminal, discount)
  np.testing.assert_allclose(q[:5], plain[:5] - potential[:5, None], atol=1e-5)
  np.testing.assert_array_equal(q[:5].argmax(axis=1), plain[:5].argmax(axis=1))


WAY = ThreeRooms().shortest_path()


def rooms_with(name, **arguments):
  """The three-room run with one of the paper's potentials."""
  world = ThreeRooms()
  potential, potential_arguments = paper_potentials((world.width, world.height), world.gaps, world.goal, **arguments)[
    name
  ]
  config = load_config("three_rooms")
  environment = EnvironmentConfig(potential=potential, potential_arguments=potential_arguments)
  return dataclasses.replace(config, environment=environment)


def phi_along_the_way(name, **arguments):
  """The potential in every state of the shortest way through the three rooms, computed from the shaping of its steps."""
  config = rooms_with(name, **arguments)
  env = make_event_environment(from_json(to_json(config)), shaped=True)
  env.reset()
  steps = [env.step(action) for action in WAY]
  values = [0.0]  # phi of the terminal state; backwards from there, phi(s) = gamma phi(s') - F.
  for step in reversed(steps):
    values.append(config.learner.discount * values[-1] - step.shaping)
  assert sum(step.reward for step in steps) == pytest.approx(1 - 0.1 * (len(steps) - 1), abs=1e-5)
  return np.array(values[::-1]), [(0, 4), *way_positions()]


def way_positions():
  world = ThreeRooms()
  world.reset()
  return [world.step(action)[4]["position"] for action in WAY]


@pytest.mark.parametrize("arguments", [{}, {"key": ""}])
@pytest.mark.parametrize(
  ("name", "by_hand"),
  [
    ("gap", lambda x, y: float((x, y) in ((5, 0), (11, 4)))),
    ("manhattan_goal", lambda x, y: 1 - (16 - x + y) / 20),
    ("manhattan_gap", lambda x, y: 1 - min(abs(x - 5) + y, abs(x - 11) + 4 - y) / 20),
    ("right_wall", lambda x, y: x / 16),
    ("left_wall", lambda x, y: 1 - x / 16),
  ],
)
def test_the_papers_potentials_on_the_three_rooms(name, by_hand, arguments):
  # 17 x 5 cells; the goal is at (16, 0), the gaps are at (5, 0) and (11, 4).
  values, cells = phi_along_the_way(name, **arguments)
  expected = [by_hand(*cell) for cell in cells]
  np.testing.assert_allclose(values[:-1], expected[:-1], atol=1e-6)
  assert len(set(np.round(expected[:-1], 6))) > 1


def test_without_a_potential_nothing_is_shaped():
  env = make_event_environment(rooms_with("none"), shaped=True)
  env.reset()
  assert {env.step(action).shaping for action in WAY} == {0.0}


def test_only_an_environment_that_asks_for_shaping_is_shaped():
  config = rooms_with("right_wall")
  for shaped in (False, True):
    env = make_event_environment(config, shaped=shaped)
    env.reset()
    assert any(env.step(action).shaping for action in WAY) is shaped


def test_an_event_sees_the_reward_as_it_is():
  config = override(
    rooms_with("right_wall"),
    {
      "events.done.condition": "environments.conditions:Threshold",
      "events.done.arguments.above": "0.9999",
    },
  )
  env = make_event_environment(config, shaped=True)
  env.reset()
  masks = [env.step(action).events for action in WAY]
  assert [mask >> 1 for mask in masks] == [0] * (len(masks) - 1) + [1]


def test_a_walls_nearness_and_distance_and_another_origin():
  def at(potential, x, y):
    return potential(None, {"cell": (x, y)})

  arguments: dict[str, Any] = {"size": [5, 3], "key": "cell", "origin": [1, 1]}
  assert [at(Wall("left", **arguments), x, 2) for x in (1, 2, 5)] == [1.0, 0.75, 0.0]
  assert [at(Wall("left", **arguments, distance=True), x, 2) for x in (1, 2, 5)] == [0.0, 0.25, 1.0]
  assert [at(Wall("right", **arguments), x, 2) for x in (1, 5)] == [0.0, 1.0]
  assert [at(Wall("right", **arguments, distance=True), x, 2) for x in (1, 5)] == [1.0, 0.0]
  assert [at(Wall("top", **arguments), 2, y) for y in (1, 2, 3)] == [1.0, 0.5, 0.0]
  assert [at(Wall("bottom", **arguments), 2, y) for y in (1, 2, 3)] == [0.0, 0.5, 1.0]
  goal = {"cells": [[5, 1]], **arguments}
  assert [at(Manhattan(**goal), *cell) for cell in ((5, 1), (4, 2), (1, 3))] == pytest.approx([1.0, 2 / 3, 0.0])
  assert [at(Manhattan(**goal, distance=True), *cell) for cell in ((5, 1), (1, 3))] == [0.0, 1.0]


def test_a_position_is_read_from_an_observation_with_an_origin():
  potential = AtCells([[1, 3]], size=[5, 3], key="", origin=[1, 1])
  assert potential(np.array([-1, 1, 0.3], np.float32), {}) == 1.0
  assert potential(np.array([-0.5, 1, 0.3], np.float32), {}) == 0.0


def test_a_potential_is_a_function_or_a_class_with_arguments(user_potentials):
  assert make_potential("user_potentials:first_number", {"scale": 2})(np.array([3.0]), {}) == 6.0
  assert make_potential("user_potentials:Best", {"best": 4})(4, {}) == 1.0


@pytest.mark.parametrize("value", [None, "1", float("nan"), float("inf"), [1.0], 1j])
def test_a_potential_that_is_no_finite_number_is_refused(user_potentials, value):
  shaping = Shaping(make_potential("user_potentials:returns", {"value": value}), 0.9)
  with pytest.raises(UserError, match=r"^The potential returned .*: it must be one finite number\.$"):
    shaping.reset(np.zeros(1), {})


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.array(1.0), np.bool_(True)])
def test_every_real_number_is_a_potential(value):
  shaping = Shaping(lambda observation, info: value, 0.5)
  shaping.reset(None, {})
  assert shaping(None, {}, False) == -0.5


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (lambda: make_potential("gap", {}), r"^environment\.potential is 'gap': write it as 'module:name'\.$"),
    (lambda: make_potential("user_potentials:Bets", {}), r"^environment\.potential, .* did you mean 'Best'\?$"),
    (lambda: make_potential("user_potentials:Best", {}), r"cannot be made with the arguments {} \(TypeError: .*'best'"),
    (
      lambda: make_potential("user_potentials:one_parameter", {}),
      r"^environment\.potential, 'user_potentials:one_parameter', cannot be called with an observation and an info \(too",
    ),
    (
      lambda: make_potential("user_potentials:first_number", {"scal": 1}),
      r"cannot be called with an observation and an info and the arguments {'scal': 1}",
    ),
    (
      lambda: Shaping(make_potential("user_potentials:broken", {}), 0.9).reset(None, {}),
      r"^The potential raised KeyError \('height'\): fix it\.$",
    ),
    (
      lambda: Shaping(AtCells([[0, 0]]), 0.9).reset(None, {}),
      r"^The potential failed: AtCells looks for 'position', which info lacks: correct the key\.$",
    ),
    (lambda: AtCells([]), r"^AtCells has the cells \[\]: give a list of at least one \[x, y\]\.$"),
    (
      lambda: AtCells([[1, 2.5]]),  # type: ignore[list-item]  # The mistake.
      r"^AtCells has the cell \[1, 2\.5\]: give two whole numbers, for x and for y\.$",
    ),
    (lambda: AtCells([[1, 2]], key=3), r"^AtCells has the key 3: it must be a string, or empty"),  # type: ignore[arg-type]  # The mistake.
    (lambda: AtCells([[1, 2]], key=""), r"^AtCells reads the observation and needs the size of the grid: give size="),
    (
      lambda: AtCells([[1, 2]], origin=[-1, 0]),
      r"^AtCells has the origin \[-1, 0\]: give two whole numbers of at least",
    ),
    (
      lambda: Manhattan([[1, 2]], [1, 5]),
      r"^Manhattan has the size \[1, 5\]: give two whole numbers of at least 2, for",
    ),
    (lambda: Manhattan([[1, 2]], None), r"^Manhattan has the size None"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Manhattan([[1, 2]], [5, 5], distance=1), r"^Manhattan has distance=1: it must be true or false\.$"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Wall("up", [5, 5]), r"^Wall has the side 'up': use one of left, right, top, bottom\.$"),  # type: ignore[arg-type]  # The mistake.
  ],
)
def test_a_mistake_is_refused_with_what_to_do(user_potentials, make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()

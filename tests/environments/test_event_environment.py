"""gymnasium environments as dm_env environments with events."""

import importlib

import dm_env
import gymnasium
import numpy as np
import pytest
from absl.testing import absltest
from acme import specs
from dm_env import test_utils
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configs import EventSpec, UserError
from environments import EventEnvironment, ThreeRooms, make_environment_spec

GAP = EventSpec("at_gap", "environments.three_rooms:at_gap", history=200)
DONE = EventSpec("done", "environments.three_rooms:done", history=200)

SECOND = """
class Second:
  def reset(self):
    self.steps = 0

  def __call__(self, step):
    self.steps += 1
    return self.steps == 2
"""


class Scripted(gymnasium.Env):
  """Plays back (observation, reward, terminated, truncated), and notes what it is asked."""

  def __init__(self, observation_space=None, action_space=None, steps=(), first=(0.0,), buffer=None):
    self.observation_space = observation_space or spaces.Box(-1, 1, (1,), np.float64)
    self.action_space = action_space or spaces.Discrete(2)
    self.steps, self.first, self.buffer = list(steps), first, buffer
    self.seeds, self.actions = [], []
    self.closed = False

  def _observe(self, value):
    if self.buffer is None:
      return value
    self.buffer[:] = value
    return self.buffer

  def reset(self, *, seed=None, options=None):
    self.seeds.append(seed)
    return self._observe(self.first), {}

  def step(self, action):
    self.actions.append(action)
    observation, reward, terminated, truncated = self.steps.pop(0)
    return self._observe(observation), reward, terminated, truncated, {}

  def render(self):
    return "picture"

  def close(self):
    self.closed = True


def box(low, high, shape=(1,), dtype=np.float64):
  return spaces.Box(low, high, shape, dtype)


class TestThreeRoomsFollowsDmEnv(test_utils.EnvironmentTestMixin, absltest.TestCase):
  """The protocol test that comes with dm_env."""

  def make_object_under_test(self):
    return EventEnvironment(ThreeRooms(time_limit=7), (GAP, DONE))

  def make_action_sequence(self):
    return [np.int32(action) for action in (2, 0, 1) * 7]

  def assertValidStep(self, step):  # noqa: N802  # dm_env's name.
    # An EventTimeStep begins with a TimeStep's fields, but is a tuple with more of them.
    super().assertValidStep(dm_env.TimeStep(*step[:4]))


def test_an_episode_has_one_first_step_and_one_last():
  env = EventEnvironment(Scripted(steps=[([0.5], 1.5, False, False), ([1.0], -2, True, False)], first=[0.0]))
  first, mid, last = env.reset(), env.step(0), env.step(1)
  assert [step.step_type for step in (first, mid, last)] == list(dm_env.StepType)
  assert [(step.first(), step.mid(), step.last()) for step in (first, mid, last)] == [
    (True, False, False),
    (False, True, False),
    (False, False, True),
  ]
  assert (first.reward, first.discount, first.events) == (None, None, 0)
  assert (mid.reward, mid.discount, mid.terminated, mid.truncated) == (1.5, 1.0, False, False)
  assert (last.reward, last.discount, last.terminated, last.truncated) == (-2.0, 0.0, True, False)
  assert {step.reward.dtype for step in (mid, last)} == {np.dtype(np.float32)}
  assert {step.discount.dtype for step in (mid, last)} == {np.dtype(np.float32)}
  np.testing.assert_array_equal(last.observation, np.array([1.0], np.float32))


@pytest.mark.parametrize(
  ("terminated", "truncated", "discount"), [(False, True, 1.0), (True, False, 0.0), (True, True, 0.0)]
)
def test_truncation_keeps_the_discount_and_termination_sets_it_to_0(terminated, truncated, discount):
  env = EventEnvironment(Scripted(steps=[([0.0], 0.0, terminated, truncated)]))
  env.reset()
  step = env.step(0)
  assert step.last()
  assert (step.discount, step.terminated, step.truncated) == (discount, terminated, truncated)


def test_a_step_after_the_last_resets_and_ignores_its_action():
  gym_env = Scripted(steps=[([0.0], 0.0, True, False), ([0.0], 0.0, False, False)])
  env = EventEnvironment(gym_env)
  assert env.step(0).first()
  assert env.step(1).last()
  assert env.step(0).first()
  assert env.step(1).mid()
  assert gym_env.actions == [1, 1]


def test_numpy_flags_become_python_bools():
  env = EventEnvironment(Scripted(steps=[([0.0], 0.0, np.bool_(False), np.bool_(True))]))
  env.reset()
  step = env.step(0)
  assert (step.terminated, step.truncated) == (False, True)
  assert type(step.truncated) is bool


def test_the_seed_reaches_the_first_reset_only():
  gym_env = Scripted()
  env = EventEnvironment(gym_env, seed=7)
  env.reset()
  env.reset()
  assert gym_env.seeds == [7, None]


def test_the_seed_seeds_the_action_space():
  def sample(seed):
    space = EventEnvironment(ThreeRooms(), seed=seed).gym_env.action_space
    return [space.sample() for _ in range(20)]

  assert sample(3) == sample(3)
  assert sample(3) != sample(4)


def test_the_same_seed_gives_the_same_episodes():
  def play(seed):
    env = EventEnvironment(gymnasium.make("CartPole-v1"), seed=seed)
    return np.concatenate([env.step(i % 2).observation for i in range(60)])

  np.testing.assert_array_equal(play(5), play(5))
  assert not np.array_equal(play(5), play(6))


class Measuring(Scripted):
  """Gives `measures` at each step in turn, None for none."""

  def __init__(self, *measures):
    super().__init__(steps=[([0.0], 0.0, False, index == len(measures) - 1) for index in range(len(measures))])
    self.measures = iter(measures)

  def step(self, action):
    *answer, info = super().step(action)
    measures = next(self.measures)
    return (*answer, info if measures is None else {**info, "measures": measures})


def test_measures_come_with_the_last_step_alone():
  env = EventEnvironment(Measuring({"lap": np.nan}, None, {"lap": np.float32(1.5), "won": np.bool_(True)}))
  steps = [env.reset(), *(env.step(0) for _ in range(3))]
  assert [dict(step.measures) for step in steps] == [{}, {}, {}, {"lap": 1.5, "won": 1.0}]
  without = EventEnvironment(Measuring(None))
  without.reset()
  assert dict(without.step(0).measures) == {}


class Naming(Scripted):
  """Ends an episode at every step, with a measure of another name."""

  def step(self, action):
    return [0.0], 0.0, True, False, {"measures": {f"lap_{len(self.seeds)}": 1.0}}


def test_the_names_of_measures_are_bounded_over_all_episodes():
  env = EventEnvironment(Naming())
  for episode in range(1, 33):
    env.reset()
    assert dict(env.step(0).measures) == {f"lap_{episode}": 1.0}
  env.reset()
  with pytest.raises(UserError, match=r"cannot be used: they have had 33 names by now, more than 32; give a dict"):
    env.step(0)


def test_events_come_with_the_step_that_fired_them():
  gym_env = ThreeRooms(room_size=2, gaps=(1, 1))
  env = EventEnvironment(gym_env, (GAP, DONE))
  masks = [env.reset().events, *(env.step(action).events for action in gym_env.shortest_path())]
  # 8 cells in the order room, gap, room, room, gap, room, room; a turn; and up.
  assert masks == [0, 0, 0b01, 0, 0, 0b01, 0, 0, 0, 0b10]


def test_conditions_are_reset_at_every_episode(tmp_path, monkeypatch):
  (tmp_path / "second_step.py").write_text(SECOND)
  monkeypatch.syspath_prepend(str(tmp_path))
  env = EventEnvironment(ThreeRooms(time_limit=3), [EventSpec("second", "second_step:Second", 1)])
  # A first step has no events; then come three steps each episode.
  assert [env.step(0).events for _ in range(8)] == [0, 0, 1, 0] * 2


def test_a_condition_sees_the_whole_transition(tmp_path, monkeypatch):
  (tmp_path / "notes_steps.py").write_text("STEPS = []\n\ndef note(step):\n  STEPS.append(step)\n  return False\n")
  monkeypatch.syspath_prepend(str(tmp_path))
  gym_env = Scripted(action_space=spaces.Discrete(2, start=5), steps=[([0.25], 3, False, True)], first=[0.5])
  env = EventEnvironment(gym_env, [EventSpec("note", "notes_steps:note", 1)])
  env.reset()
  env.step(1)
  (step,) = importlib.import_module("notes_steps").STEPS
  assert (step.observation, step.action, step.reward, step.next_observation) == ([0.5], 6, 3.0, [0.25])
  assert (step.info, step.terminated, step.truncated) == ({}, False, True)
  assert type(step.reward) is float


def test_an_observation_survives_an_environment_that_reuses_its_buffer():
  gym_env = Scripted(steps=[(0.5, 0.0, False, False)], first=0.25, buffer=np.zeros(1, np.float32))
  env = EventEnvironment(gym_env)
  first = env.reset()
  env.step(0)
  assert first.observation == [0.25]


@pytest.mark.parametrize("reward", [True, np.bool_(True), 1, 1.0, np.int64(1), np.float32(1), np.array(1.0)])
def test_every_real_number_is_a_reward(reward):
  env = EventEnvironment(Scripted(steps=[([0.0], reward, False, False)]))
  env.reset()
  assert env.step(0).reward == np.float32(1.0)


@pytest.mark.parametrize("reward", [None, "1", 1j, [1.0], np.array([1.0]), float("nan"), np.float32("inf")])
def test_a_reward_that_is_not_a_finite_number_is_refused(reward):
  env = EventEnvironment(Scripted(steps=[([0.0], reward, False, False)]))
  env.reset()
  with pytest.raises(UserError, match=r"'Scripted' returned the reward .* from step: it must be one finite number\."):
    env.step(0)


@pytest.mark.parametrize(
  ("space", "observation", "spec"),
  [
    (box(-1, 2), [0.5], specs.BoundedArray((1,), np.float32, -1, 2)),
    (box(0, 255, (2, 2), np.uint8), np.ones((2, 2)), specs.BoundedArray((2, 2), np.uint8, 0, 255)),
    (box(-np.inf, np.inf, (2,), np.float32), [0, 0], specs.BoundedArray((2,), np.float32, -np.inf, np.inf)),
    (spaces.Discrete(4), 3, specs.BoundedArray((), np.int32, 0, 3)),
    (spaces.Discrete(4, start=-1), np.int64(2), specs.BoundedArray((), np.int32, -1, 2)),
    (spaces.MultiDiscrete([2, 3]), [1, 2], specs.BoundedArray((2,), np.int32, [0, 0], [1, 2])),
    (spaces.MultiBinary(3), [0, 1, 1], specs.BoundedArray((3,), np.int8, 0, 1)),
  ],
)
def test_observations_have_the_shape_and_dtype_of_their_spec(space, observation, spec):
  env = EventEnvironment(Scripted(space, steps=[(observation, 0.0, False, False)], first=observation))
  assert (env.observation_spec().shape, env.observation_spec().dtype) == (spec.shape, spec.dtype)
  np.testing.assert_array_equal(env.observation_spec().minimum, spec.minimum)
  np.testing.assert_array_equal(env.observation_spec().maximum, spec.maximum)
  for step in (env.reset(), env.step(0)):
    env.observation_spec().validate(step.observation)


def test_bounds_beyond_float32_are_infinite():
  limit = np.finfo(np.float64).max
  env = EventEnvironment(Scripted(box(-limit, limit)))
  assert np.isinf(env.observation_spec().maximum).all()


@pytest.mark.parametrize(
  "space",
  [spaces.Dict({"a": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3)],
)
def test_an_observation_that_is_not_an_array_is_refused(space):
  kind = type(space).__name__
  with pytest.raises(UserError, match=f"observations are a {kind} space.*gymnasium.wrappers.FlattenObservation"):
    EventEnvironment(Scripted(space))


def test_discrete_actions_count_from_0_whatever_the_space_starts_at():
  gym_env = Scripted(action_space=spaces.Discrete(3, start=2), steps=[([0.0], 0.0, False, False)] * 3)
  env = EventEnvironment(gym_env)
  assert isinstance(env.action_spec(), specs.DiscreteArray)
  assert (env.action_spec().num_values, env.action_spec().dtype) == (3, np.int32)
  env.reset()
  for action in (0, np.int32(1), np.array(2, np.int32)):
    env.step(action)
  assert gym_env.actions == [2, 3, 4]
  assert {type(action) for action in gym_env.actions} == {int}


def mapped(space, *actions):
  """The actions that a gymnasium environment with this action space gets."""
  gym_env = Scripted(action_space=space, steps=[([0.0], 0.0, False, False)] * len(actions))
  env = EventEnvironment(gym_env)
  env.reset()
  for action in actions:
    env.step(action)
  return gym_env.actions


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_continuous_actions_are_canonical_and_arrive_in_the_dtype_and_bounds_of_the_space(dtype):
  space = spaces.Box(np.array([-0.1, 0], dtype), np.array([0.1, 5], dtype), dtype=dtype)
  spec = EventEnvironment(Scripted(action_space=space)).action_spec()
  assert spec == specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action")
  halves = np.array([0.5, -0.5], np.float32)
  arrived = mapped(space, -np.ones(2, np.float32), np.zeros(2, np.float32), halves, np.ones(2, np.float32))
  assert {(type(action), action.dtype) for action in arrived} == {(np.ndarray, np.dtype(dtype))}
  assert all(space.contains(action) for action in arrived)
  np.testing.assert_array_equal(arrived[0], space.low)
  np.testing.assert_array_equal(arrived[3], space.high)
  np.testing.assert_allclose(arrived[1:3], [[0, 2.5], [0.05, 1.25]], rtol=2 * float(np.finfo(dtype).eps))


def test_an_action_outside_its_bounds_is_clipped():
  arrived = mapped(box(-2, 4), *(np.array([value], np.float32) for value in (-1.001, 1.001, -np.inf, 1e38)))
  assert [float(action[0]) for action in arrived] == [-2, 4, -2, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_actions_between_minus_one_and_one_arrive_as_they_are(dtype):
  actions = np.random.default_rng(0).uniform(-1, 1, (20, 3)).astype(np.float32)
  np.testing.assert_array_equal(mapped(box(-1, 1, (3,), dtype), *actions), actions.astype(dtype))
  assert [float(a[0]) for a in mapped(box(-1, 1, (1,), dtype), np.array([2.0]), np.array([-1.5]))] == [1, -1]


def test_one_continuous_action_without_a_shape_is_mapped():
  (arrived,) = mapped(box(0, 10, ()), np.float32(0.5))
  assert isinstance(arrived, np.ndarray)
  assert (arrived.shape, float(arrived)) == ((), 7.5)


@pytest.mark.parametrize(
  ("low", "high"),
  [([-np.inf, -1], [np.inf, 1]), ([-1, 0], [1, np.inf]), ([-1, 2], [1, 2]), ([-1, -np.finfo(np.float64).max], [1, 0])],
  ids=["unbounded", "half-bounded", "nothing between", "beyond float32"],
)
def test_bounds_that_cannot_be_rescaled_stay_as_they_are(low, high):
  space = spaces.Box(np.array(low, np.float64), np.array(high, np.float64), dtype=np.float64)
  spec = EventEnvironment(Scripted(action_space=space)).action_spec()
  with np.errstate(over="ignore"):
    np.testing.assert_array_equal(spec.minimum, space.low.astype(np.float32))
    np.testing.assert_array_equal(spec.maximum, space.high.astype(np.float32))
  action = np.array([0.75, 2 if low[1] == 2 else 0], np.float32)
  (arrived,) = mapped(space, action)
  assert arrived.dtype == np.float64
  np.testing.assert_array_equal(arrived, action)


@st.composite
def bounded_boxes(draw):
  dtype = draw(st.sampled_from([np.float32, np.float64]))
  number = st.floats(-(2.0**99), 2.0**99, width=32 if dtype is np.float32 else 64, allow_subnormal=False)
  bounds = draw(st.lists(st.tuples(number, number).filter(lambda b: b[0] != b[1]), min_size=1, max_size=4))
  low, high = np.sort(np.array(bounds, dtype)).T
  return spaces.Box(low, high, dtype=dtype)


@settings(max_examples=300, deadline=None)
@given(bounded_boxes(), st.lists(st.floats(-1.5, 1.5, width=32), min_size=4, max_size=4))
@example(spaces.Box(-1e10, 1e-10, (1,), np.float64), [0.5] * 4)
@example(spaces.Box(1.0, 1 + 2**-52, (1,), np.float64), [0.5] * 4)
def test_the_map_of_actions_is_affine_hits_both_bounds_and_never_leaves_the_space(space, values):
  size = space.shape[0]
  action, ones = np.array(values[:size], np.float32), np.ones(size, np.float32)
  low, high, arrived = mapped(space, -ones, ones, action)
  np.testing.assert_array_equal(low, space.low)
  np.testing.assert_array_equal(high, space.high)
  assert all(space.contains(a) for a in (low, high, arrived))
  # In long doubles, rounded once: the environment's own arithmetic may differ by a few units in the last place of a bound.
  place = np.clip(action.astype(np.longdouble), -1, 1)
  exact = (1 - place) / 2 * space.low + (1 + place) / 2 * space.high
  largest = np.maximum(np.abs(space.low), np.abs(space.high))
  assert (np.abs(arrived - exact) <= 8 * np.finfo(space.dtype).eps * largest).all()


def test_a_condition_sees_the_action_that_the_environment_got(tmp_path, monkeypatch):
  (tmp_path / "notes_actions.py").write_text(
    "ACTIONS = []\ndef note(step):\n  ACTIONS.append(step.action)\n  return False\n"
  )
  monkeypatch.syspath_prepend(str(tmp_path))
  env = EventEnvironment(
    Scripted(action_space=box(0, 10), steps=[([0.0], 0.0, False, False)]), [EventSpec("note", "notes_actions:note", 1)]
  )
  env.reset()
  env.step(np.array([0.5], np.float32))
  (action,) = importlib.import_module("notes_actions").ACTIONS
  assert (action.dtype, action.tolist()) == (np.float64, [7.5])


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 10)])
def test_a_continuous_action_of_another_shape_is_refused(bounds):
  with pytest.raises(UserError, match=r"An action has the shape \(1,\), but the environment takes \(3,\): fix"):
    mapped(box(bounds[0], bounds[1], (3,)), np.zeros(1, np.float32))


@pytest.mark.parametrize(
  "space", [spaces.MultiDiscrete([2, 2]), spaces.Box(0, 3, (1,), np.int32), spaces.MultiBinary(2)]
)
def test_other_actions_are_refused(space):
  with pytest.raises(UserError, match=r"The environment's actions are .*: use one with a Discrete space or a Box"):
    EventEnvironment(Scripted(action_space=space))


def test_the_environment_spec_has_all_four_parts():
  spec = make_environment_spec(EventEnvironment(ThreeRooms(), (GAP, DONE)))
  assert (spec.observations.shape, spec.observations.dtype) == ((3,), np.float32)
  assert spec.actions.num_values == 3
  assert (spec.rewards.shape, spec.rewards.dtype) == ((), np.float32)
  assert (spec.discounts.shape, spec.discounts.minimum, spec.discounts.maximum) == ((), 0, 1)


def test_render_and_close_reach_the_gymnasium_environment():
  gym_env = Scripted()
  env = EventEnvironment(gym_env)
  assert env.gym_env is gym_env
  assert env.render() == "picture"
  env.close()
  assert gym_env.closed

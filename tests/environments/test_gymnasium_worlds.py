"""gymnasium's classic control, lunar landers and MuJoCo worlds by the names that a config gives them."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from acme import specs

from configs import EnvironmentConfig, EventSpec, ReplayConfig, RunConfig, TableSpec
from environments import make_event_environment

# Name -> numbers in an observation, actions to choose from.
DISCRETE = {"CartPole-v1": (4, 2), "Acrobot-v1": (6, 3), "LunarLander-v3": (8, 4)}
# Name -> numbers in an observation, numbers in an action, the bound of each.
CONTINUOUS = {
  "Pendulum-v1": (3, 1, 2.0),
  "LunarLanderContinuous-v3": (8, 2, 1.0),
  "HalfCheetah-v5": (17, 6, 1.0),
  "Hopper-v5": (11, 3, 1.0),
  "Walker2d-v5": (17, 6, 1.0),
  "Humanoid-v5": (348, 17, 0.4),
  "Ant-v5": (105, 8, 1.0),
  "Swimmer-v5": (8, 2, 1.0),
}
EVERY_WORLD = pytest.mark.parametrize("name", [*DISCRETE, *CONTINUOUS])


def make_world(name, seed=1, events=(), **arguments):
  tables = tuple(TableSpec(event.name, 0.1) for event in events)
  replay = ReplayConfig(default=TableSpec("default", 1 - 0.1 * len(tables)), tables=tables)
  config = RunConfig(environment=EnvironmentConfig(name, arguments), events=tuple(events), replay=replay)
  return make_event_environment(config, seed=seed)


def random_actions(spec, seed=0):
  """An endless stream of uniformly random actions."""
  rng = np.random.default_rng(seed)
  while True:
    if isinstance(spec, specs.DiscreteArray):
      yield np.asarray(rng.integers(spec.num_values), spec.dtype)
    else:
      yield rng.uniform(spec.minimum, spec.maximum, spec.shape).astype(spec.dtype)


def play(env, actions, steps=1_000):
  """The time steps of an episode, at most `steps` after its first."""
  timesteps = [env.reset()]
  for action in itertools.islice(actions, steps):
    if timesteps[-1].last():
      break
    timesteps.append(env.step(action))
  return timesteps


def check_specs(name, observations, actions):
  env = make_world(name)
  spec = env.observation_spec()
  assert (spec.shape, spec.dtype) == ((observations,), np.float32)
  assert env.action_spec() == actions
  for timestep in play(env, random_actions(env.action_spec()), steps=5):
    spec.validate(timestep.observation)
    if not timestep.first():
      assert {timestep.reward.dtype, timestep.discount.dtype} == {np.dtype(np.float32)}
  env.close()


@pytest.mark.parametrize(("name", "observations", "actions"), [(name, *sizes) for name, sizes in DISCRETE.items()])
def test_worlds_with_discrete_actions_have_their_specs(name, observations, actions):
  check_specs(name, observations, specs.DiscreteArray(actions, np.int32, "action"))


@pytest.mark.parametrize(("name", "observations", "size"), [(name, *sizes[:2]) for name, sizes in CONTINUOUS.items()])
def test_worlds_with_continuous_actions_have_canonical_ones(name, observations, size):
  check_specs(name, observations, specs.BoundedArray((size,), np.float32, -1.0, 1.0, "action"))


@pytest.mark.parametrize(("name", "size", "bound"), [(name, *sizes[1:]) for name, sizes in CONTINUOUS.items()])
def test_canonical_actions_reach_the_bounds_of_the_world(name, size, bound, monkeypatch):
  env = make_world(name)
  world, taken = env.gym_env.unwrapped, []
  env.reset()
  step = world.step

  def note(action):
    taken.append(action)
    return step(action)

  monkeypatch.setattr(world, "step", note)
  for value in (-1, 0, 0.5, 1):
    env.step(np.full(size, value, np.float32))
  env.close()
  np.testing.assert_allclose(taken, np.outer([-bound, 0, bound / 2, bound], np.ones(size)), rtol=1e-6)
  assert all(world.action_space.contains(action) for action in taken)


@EVERY_WORLD
def test_the_same_seed_gives_the_same_trajectory(name):
  def trajectory(seed):
    env = make_world(name, seed)
    timesteps = play(env, random_actions(env.action_spec()), steps=25)
    env.close()
    return np.array([timestep.observation for timestep in timesteps]), [t.reward for t in timesteps[1:]]

  (first, rewards), (again, same_rewards), (other, _) = trajectory(1), trajectory(1), trajectory(2)
  np.testing.assert_array_equal(first, again)
  assert rewards == same_rewards
  assert not np.array_equal(first[0], other[0])


@EVERY_WORLD
def test_every_observation_is_an_array_of_its_own(name):
  env = make_world(name)
  timesteps, copies = [env.reset()], []
  for action in itertools.islice(random_actions(env.action_spec()), 8):
    copies.append(timesteps[-1].observation.copy())
    timesteps.append(env.step(action))
  env.close()
  for timestep, copy in zip(timesteps, copies, strict=False):
    np.testing.assert_array_equal(timestep.observation, copy)
  assert not any(np.shares_memory(a.observation, b.observation) for a, b in itertools.combinations(timesteps, 2))


@EVERY_WORLD
def test_a_time_limit_truncates_and_keeps_the_discount(name):
  env = make_world(name, max_episode_steps=6)
  for _ in range(2):
    timesteps = play(env, random_actions(env.action_spec()))
    assert len(timesteps) == 7
    assert all(t.mid() and not t.terminated and not t.truncated and t.discount == 1 for t in timesteps[1:-1])
    last = timesteps[-1]
    assert last.last()
    assert (last.terminated, last.truncated, last.discount) == (False, True, 1)
  # The step after it starts an episode.
  assert env.step(next(random_actions(env.action_spec()))).first()
  env.close()


def pump(env):
  """Swings the acrobot up: its motor pushes in the direction in which the second link already moves."""
  while True:
    yield 2 if env.gym_env.unwrapped.state[3] > 0 else 0


def thrash(env):
  """Full force at random, which makes the ant jump too high."""
  return map(np.sign, random_actions(env.action_spec()))


@pytest.mark.parametrize(
  "name",
  [
    "CartPole-v1",
    "Acrobot-v1",
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
    "Hopper-v5",
    "Walker2d-v5",
    "Humanoid-v5",
    "Ant-v5",
  ],
)
def test_a_termination_sets_the_discount_to_0(name):
  env = make_world(name)
  actions = {"Acrobot-v1": pump, "Ant-v5": thrash}.get(name, lambda env: random_actions(env.action_spec()))(env)
  last = play(env, actions)[-1]
  env.close()
  assert last.last()
  assert (last.terminated, last.truncated, last.discount) == (True, False, 0)


@pytest.mark.parametrize("name", ["Pendulum-v1", "HalfCheetah-v5", "Swimmer-v5"])
def test_a_world_that_never_terminates_is_truncated_by_its_own_time_limit(name):
  env = make_world(name)
  limit = env.gym_env.spec.max_episode_steps
  timesteps = play(env, random_actions(env.action_spec()), steps=limit + 1)
  env.close()
  assert len(timesteps) == limit + 1
  assert (timesteps[-1].terminated, timesteps[-1].truncated, timesteps[-1].discount) == (False, True, 1)


def test_reward_thresholds_fire_on_the_world_s_rewards():
  bounds = (0.5, 1, 1.5)
  events = [
    EventSpec(f"above_{bit}", "environments.conditions:Threshold", 200, arguments={"above": bound})
    for bit, bound in enumerate(bounds)
  ]
  env = make_world("Hopper-v5", events=events)
  timesteps = play(env, random_actions(env.action_spec()))[1:]
  env.close()
  masks = [sum(1 << bit for bit, bound in enumerate(bounds) if t.reward > bound) for t in timesteps]
  assert [t.events for t in timesteps] == masks
  assert len(set(masks)) > 2


def test_a_world_is_drawn_on_a_machine_without_a_screen():
  program = (
    "from configs import EnvironmentConfig\n"
    "from environments import make\n"
    "env = make(EnvironmentConfig('Pendulum-v1'), render=True)\n"
    "env.reset(seed=0)\n"
    "print(env.render().shape)\n"
  )
  hidden = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER")
  environment = {name: value for name, value in os.environ.items() if name not in hidden}
  drawn = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
  assert (drawn.returncode, drawn.stdout, drawn.stderr) == (0, "(500, 500, 3)\n", "")

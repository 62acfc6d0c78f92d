"""A console at the fast pace plays as its world does in process, bit for bit."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from configs import EnvironmentConfig
from consoles.client import Console
from environments import make
from environments.racing.time_trials import TimeTrials
from tests.consoles.serving import Counter, served, vector

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


def _single(name: str, cars: int, **arguments: Any) -> VectorEnv:
  return SyncVectorEnv([lambda: make(EnvironmentConfig(name, arguments))] * cars, autoreset_mode=AutoresetMode.DISABLED)


def _play(env: VectorEnv, steps: int, seed: int) -> list[Any]:
  """All that a worker sees."""
  env.action_space.seed(0)
  seen: list[Any] = [env.reset(seed=seed)]
  for _ in range(steps):
    seen.append(env.step(env.action_space.sample()))
    ended = seen[-1][2] | seen[-1][3]
    if ended.any():
      seen.append(env.reset(options={"reset_mask": ended}))
  return seen


def _assert_same(seen: Any, expected: Any) -> None:
  """Equal to the last bit; of info, all that is a number, with its kind."""
  if isinstance(expected, (tuple, list)):
    assert len(seen) == len(expected)
    for one, other in zip(seen, expected, strict=True):
      _assert_same(one, other)
  elif isinstance(expected, dict):
    numbers = {name for name, values in expected.items() if isinstance(values, dict) or values.dtype.kind in "biuf"} - {
      "_name"
    }
    assert set(seen) == numbers
    for name in numbers:
      _assert_same(seen[name], expected[name])
  else:
    assert seen.dtype == expected.dtype
    assert seen.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
  ("name", "cars", "options", "in_process", "steps"),
  [
    ("slingshot", 1, {"distance": 35.0}, lambda: _single("slingshot", 1, distance=35.0), 300),
    ("slingshot", 2, {}, lambda: _single("slingshot", 2), 30),
    ("time_trials", 20, {"laps": 1, "course_points": 5}, lambda: TimeTrials(20, 1, 5), 50),
    ("CartPole-v1", 3, {}, lambda: _single("CartPole-v1", 3), 60),
    ("CarRacing-v3", 1, {}, lambda: _single("CarRacing-v3", 1), 3),
    ("tests.consoles.serving:vector", 3, {"length": 4}, lambda: vector(3, 4), 15),
    ("tests.consoles.serving:Counter", 4, {"length": 4}, lambda: SyncVectorEnv(
      [lambda: Counter(4)] * 4, autoreset_mode=AutoresetMode.DISABLED), 9),
  ],
)  # fmt: skip
def test_a_console_plays_as_its_world_does_in_process(
  name: str, cars: int, options: dict[str, Any], in_process: Callable[[], VectorEnv], steps: int
) -> None:
  env = in_process()
  expected = _play(env, steps, seed=3)
  env.close()
  with served(name) as server:
    console = Console(server.address, num_envs=cars, options=options)
    assert console.num_envs == cars
    assert console.single_observation_space == env.single_observation_space
    assert console.single_action_space == env.single_action_space
    _assert_same(_play(console, steps, seed=3), expected)
    console.close()


def test_every_car_may_have_a_seed_of_its_own() -> None:
  with served() as server:
    console = Console(server.address, num_envs=3)
    features, info = console.reset(seed=[5, 6, 5])
    assert features[0, 1] == features[2, 1] != features[1, 1]
    assert info["start"].tolist() == features[:, 1].tolist()
    assert info["start"].dtype == np.int64
    assert "name" not in info
    console.close()


def test_a_mask_begins_some_cars_and_leaves_the_others_alone() -> None:
  with served() as server:
    console = Console(server.address, num_envs=3, options={"length": 5})
    console.reset(seed=1)
    for _ in range(2):
      console.step(np.zeros((3, 1)))
    features, info = console.reset(options={"reset_mask": np.array([False, True, False])})
    assert features[:, 0].tolist() == [2, 0, 2]
    assert info["_start"].tolist() == [False, True, False]
    for _ in range(3):
      features, rewards, terminated, truncated, info = console.step(np.full((3, 1), 0.5))
    assert terminated.tolist() == [True, False, True]
    assert not truncated.any()
    assert info["measures"]["steps"].tolist() == [5, 0, 5]
    assert info["_measures"].tolist() == info["measures"]["_steps"].tolist() == [True, False, True]
    # What has ended rests, and the others go on.
    features, rewards, terminated, _, info = console.step(np.zeros((3, 1)))
    assert features[:, 0].tolist() == [5, 4, 5]
    assert rewards.tolist() == [0, 1, 0]
    assert info["_action"].tolist() == [False, True, False]
    console.close()


def test_worlds_are_named_as_in_a_config_and_arguments_of_the_console_are_the_ground() -> None:
  with served("slingshot", options='{"course_points": 7}') as server:
    narrow = Console(server.address)
    wide = Console(server.address, options={"course_points": 8})
    assert narrow.reset()[0].size < wide.observation_space.sample().size
    assert (narrow.control_seconds, narrow.pace) == (0.1, "fast")
    narrow.close()
    wide.close()


def test_another_setup_for_each_worker() -> None:
  with served() as server:
    for length in (3, 4, 3):
      console = Console(server.address, options={"length": length})
      console.reset()
      ended = [bool(console.step([[0.0]])[2][0]) for _ in range(length)]
      assert ended == [False] * (length - 1) + [True]
      console.close()


def test_a_function_may_make_an_env_or_a_vector_env() -> None:
  for world, cars, expected in (("alone", 2, 2), ("alone", 0, 1), ("vector", 0, 3)):
    with served(world) as server:
      console = Console(server.address, num_envs=cars, options={"length": 4})
      assert len(console.reset()[0]) == expected
      console.close()

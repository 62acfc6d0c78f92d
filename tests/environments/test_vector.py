"""Vector environments: taken apart, and stepped as worlds with events of their own."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from configs import EnvironmentConfig, EpisodesLost, EventSpec, RunConfig, UserError
from environments import EventTimeStep, make, make_event_environment, make_event_worlds
from environments.vector import SingleOfVector, split_infos
from environments.worlds import VectorWorlds

EVENTS = (
  EventSpec("at_gap", "environments.three_rooms:at_gap", 5, table=None),
  EventSpec(
    "inside",
    "environments:Held",
    5,
    None,
    {"condition": {"condition": "environments:Info", "arguments": {"key": "at_gap", "equals": False}}, "steps": 2},
  ),
)
ROOMS: dict[str, Any] = {"room_size": 2, "time_limit": 9}
POTENTIAL: dict[str, Any] = {
  "potential": "environments.potentials:AtCells",
  "potential_arguments": {"cells": [[1, 0]]},
}


def _config(name: str = "tests.vector_worlds:three_rooms", **arguments: Any) -> RunConfig:
  return RunConfig(environment=EnvironmentConfig(name, arguments))


class _Merger(VectorEnv[Any, Any, Any]):
  """gymnasium's own merging of infos."""

  def __init__(self, num_envs: int):
    self.num_envs = num_envs

  def merge(self, infos: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for index, own in enumerate(infos):
      merged = self._add_info(merged, own, index)
    return merged


_VALUES = {
  "won": st.booleans(),
  "lead": st.floats(allow_nan=False, width=32),
  "laps": st.integers(-9, 9),
  "name": st.text(max_size=3),
  "place": st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda place: np.array(place, np.int32)),
}


@given(
  st.lists(
    st.fixed_dictionaries(
      {}, optional={**_VALUES, "measures": st.fixed_dictionaries({}, optional={"margin": _VALUES["lead"]})}
    ),
    min_size=1,
    max_size=4,
  )
)
def test_infos_that_gymnasium_merged_come_apart_as_they_were(infos: list[dict[str, Any]]) -> None:
  split = split_infos(_Merger(len(infos)).merge(infos), len(infos))
  for mine, theirs in zip(split, infos, strict=True):
    # gymnasium cannot tell an empty dict from none.
    expected = {key: value for key, value in theirs.items() if not (isinstance(value, dict) and not value)}
    mine = {key: value for key, value in mine.items() if not (isinstance(value, dict) and not value)}
    assert mine.keys() == expected.keys()
    for key, value in expected.items():
      np.testing.assert_equal(mine[key], value)
      assert isinstance(mine[key], type(value))


def test_infos_without_a_mask_belong_to_all() -> None:
  infos = {"tick": 7, "lanes": np.array([3, 4]), "notes": ["a", "b"], "track": np.zeros(3)}
  first, second = split_infos(infos, 2)
  assert (first["tick"], first["lanes"], first["notes"]) == (7, 3, "a")
  assert (second["tick"], second["lanes"], second["notes"]) == (7, 4, "b")
  assert first["track"].shape == (3,)


def _same(one: EventTimeStep, other: EventTimeStep) -> None:
  np.testing.assert_array_equal(one.observation, other.observation)
  assert one.observation.dtype == other.observation.dtype
  assert one._replace(observation=None) == other._replace(observation=None)


def test_worlds_step_as_single_environments_do() -> None:
  environment = EnvironmentConfig("tests.vector_worlds:three_rooms", ROOMS, **POTENTIAL)
  config = RunConfig(environment=environment, events=EVENTS)
  (worlds,) = make_event_worlds(config, [3, 99, 99])
  assert worlds.size == 3
  single = RunConfig(environment=EnvironmentConfig("three_rooms", ROOMS, **POTENTIAL), events=EVENTS)
  # A vector environment gives its sub-environments the seeds that follow its own.
  environments = [make_event_environment(single, seed=3 + index, shaped=True) for index in range(3)]
  assert worlds.spec == make_event_worlds(single, [0])[0].spec
  rng = np.random.default_rng(5)
  ended = [0, 1, 2]
  fired, shaped, episodes = 0, False, 0
  for _ in range(60):
    for index, timestep in zip(ended, worlds.reset(ended) if ended else [], strict=True):
      _same(timestep, environments[index].reset())
    actions = rng.integers(3, size=3)
    timesteps = worlds.step(list(actions))
    for index, timestep in enumerate(timesteps):
      _same(timestep, environments[index].step(actions[index]))
      fired, shaped = fired | timestep.events, shaped or timestep.shaping != 0
    ended = [index for index, timestep in enumerate(timesteps) if timestep.last()]
    episodes += len(ended)
  assert fired == 0b11
  assert shaped
  assert episodes > 10
  worlds.close()


def test_single_environments_stay_single() -> None:
  worlds = make_event_worlds(_config("three_rooms"), [1, 2])
  assert [one.size for one in worlds] == [1, 1]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_makes_vector_environments_of_its_ids(mode: str) -> None:
  config = _config("CartPole-v1", vectorization_mode=mode)
  (worlds,) = make_event_worlds(config, [4, 5])
  singles = make_event_worlds(_config("CartPole-v1"), [4, 5])
  try:
    for one, other in zip(worlds.reset([0, 1]), [single.reset([0])[0] for single in singles], strict=True):
      _same(one, other)
    for one, other in zip(
      worlds.step([0, 1]), [s.step([a])[0] for s, a in zip(singles, (0, 1), strict=True)], strict=True
    ):
      _same(one, other)
  finally:
    worlds.close()


def test_an_evaluation_plays_a_vector_environment_of_one() -> None:
  environment = make(EnvironmentConfig("tests.vector_worlds:three_rooms", ROOMS))
  assert isinstance(environment, SingleOfVector)
  reference = gymnasium.make("Slipstream/ThreeRooms-v0", **ROOMS)
  assert environment.observation_space == reference.observation_space
  for seed in (3, None):
    np.testing.assert_array_equal(environment.reset(seed=seed)[0], reference.reset(seed=seed)[0])
    ended = False
    while not ended:
      mine, theirs = environment.step(2), reference.step(2)
      np.testing.assert_array_equal(mine[0], theirs[0])
      assert mine[1:4] == theirs[1:4]
      assert {key: np.asarray(value).tolist() for key, value in mine[4].items()} == {
        key: np.asarray(value).tolist() for key, value in theirs[4].items()
      }
      ended = mine[2] or mine[3]


def test_an_episode_that_a_world_lost_is_no_failure_of_its_code() -> None:
  (worlds,) = make_event_worlds(_config("tests.vector_worlds:Losing", lost=[1]), [0, 0])
  worlds.reset([0, 1])
  with pytest.raises(EpisodesLost, match="The console died"):
    worlds.step([0, 0])
  worlds.reset([0, 1])
  assert len(worlds.step([0, 0])) == 2


@pytest.mark.parametrize(
  ("config", "sentence"),
  [
    (
      _config("tests.vector_worlds:resetting"),
      "The vector environment 'tests.vector_worlds:resetting' has the autoreset mode NEXT_STEP: only with AutoresetMode.DISABLED",
    ),
    (_config("tests.vector_worlds:resetting", mode="SAME_STEP"), "has the autoreset mode SAME_STEP: only with"),
    (
      _config("tests.vector_worlds:two"),
      "The vector environment 'tests.vector_worlds:two' has 2 sub-environments, where actor.environments asks for 3: make",
    ),
    (
      _config(num_envs=3),
      "environment.arguments has 'num_envs', which the role that makes the environment chooses: set",
    ),
    (_config("CartPole-v1", vectorization_mode="vector_entry_point"), "has the autoreset mode NEXT_STEP: only with"),
    (_config("CartPole-v1", vectorization_mode="both"), "cannot be made with the arguments"),
  ],
)
def test_a_vector_environment_that_cannot_be_used(config: RunConfig, sentence: str) -> None:
  with pytest.raises(UserError, match=sentence):
    make_event_worlds(config, [0, 1, 2])


@pytest.mark.parametrize(
  ("fault", "sentence"),
  [
    ("four", "returned something else than five values, as gymnasium's vector environments do from step"),
    ("short", "something else than arrays of 2 values, one for each sub-environment from step"),
    ("list of infos", "something else than the infos as a dict of arrays from step"),
    ("ragged", "returned an observation from step that is outside its observation_space: it has the shape"),
    ("nan", "returned the reward nan"),
  ],
)
@pytest.mark.filterwarnings("ignore:Creating an ndarray from ragged")
def test_a_vector_environment_that_answers_wrongly(fault: str, sentence: str) -> None:
  (worlds,) = make_event_worlds(_config("tests.vector_worlds:Answering", fault=fault), [0, 1])
  worlds.reset([0, 1])
  with pytest.raises(UserError, match=sentence):
    worlds.step([0, 0])


def test_continuous_actions_have_the_dtype_of_the_space() -> None:
  seen: list[Any] = []

  class Sliding(gymnasium.Env[Any, Any]):
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
      return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
      seen.append(action)
      return np.zeros(1, np.float32), 0.0, False, False, {}

  env = SyncVectorEnv([Sliding, Sliding], autoreset_mode=AutoresetMode.DISABLED)
  worlds = VectorWorlds(env, EnvironmentConfig("sliding"))
  worlds.reset([0, 1])
  worlds.step([np.array([0.5], np.float32), np.array([-1.0], np.float32)])
  assert [(action.tolist(), action.dtype) for action in seen] == [([1.0], np.float64), ([-2.0], np.float64)]

"""How observations become the inputs of a network: the module and its numpy twin, by hand and on real spaces."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from acme import specs
from hypothesis import given
from hypothesis import strategies as st

from configs import UserError
from configs.specs import CATEGORIES
from environments import EventEnvironment, make_environment_spec
from networks import encoding_of, flatten_weights, make_acting_q_network, make_q_network
from tests.networks.test_q_network import make_run


class _World(gymnasium.Env):
  action_space: gymnasium.Space = gymnasium.spaces.Discrete(2)

  def __init__(self, space: gymnasium.Space) -> None:
    self.observation_space = space

  def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
    super().reset(seed=seed)
    return self.observation_space.sample(), {}


def _spec(space: gymnasium.Space) -> specs.EnvironmentSpec:
  return make_environment_spec(EventEnvironment(_World(space), ()))


def test_a_discrete_observation_is_one_hot_from_the_spaces_first_value() -> None:
  encoding = encoding_of(_spec(gymnasium.spaces.Discrete(3, start=5)).observations)
  assert encoding.inputs == 3
  expected = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
  assert encoding.in_numpy(np.array([6, 5, 7], np.int32)).tolist() == expected
  assert encoding.in_graph(tf.constant([6, 5, 7], tf.int32)).numpy().tolist() == expected


def test_several_categories_lie_side_by_side() -> None:
  encoding = encoding_of(_spec(gymnasium.spaces.MultiDiscrete([2, 3])).observations)
  assert encoding.inputs == 5
  assert encoding.in_numpy(np.array([[1, 0], [0, 2]], np.int32)).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_pictures_are_scaled_to_one() -> None:
  encoding = encoding_of(_spec(gymnasium.spaces.Box(0, 255, (1, 1, 3), np.uint8)).observations)
  pictures = np.array([[[[0, 51, 255]]]], np.uint8)
  np.testing.assert_allclose(encoding.in_numpy(pictures), [[0, 0.2, 1]], rtol=1e-6)
  np.testing.assert_allclose(encoding.in_graph(tf.constant(pictures)).numpy(), [[0, 0.2, 1]], rtol=1e-6)


@pytest.mark.parametrize(
  "space",
  [
    gymnasium.spaces.Box(-1, 1, (2,), np.float32),
    gymnasium.spaces.Box(0, 9, (2,), np.int64),
    gymnasium.spaces.Box(0, 10, (2,), np.uint8),
    gymnasium.spaces.MultiBinary(2),
  ],
)
def test_other_observations_are_the_inputs_as_they_are(space: gymnasium.Space) -> None:
  encoding = encoding_of(_spec(space).observations)
  assert encoding.inputs == 2
  observations = np.array([[1, 0]], space.dtype)
  assert encoding.in_numpy(observations).tolist() == [[1, 0]]
  assert encoding.in_numpy(observations).dtype == np.float32
  assert encoding.in_graph(tf.constant(observations)).numpy().tolist() == [[1, 0]]


def test_float32_observations_are_not_copied() -> None:
  observations = np.ones((4, 2), np.float32)
  encoding = encoding_of(_spec(gymnasium.spaces.Box(-1, 1, (2,), np.float32)).observations)
  assert np.shares_memory(encoding.in_numpy(observations), observations)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 6)), min_size=1, max_size=4), st.randoms())
def test_categories_are_those_of_a_plain_loop(spans: list[tuple[int, int]], random: object) -> None:
  first, counts = (np.array(numbers) for numbers in zip(*spans, strict=True))
  spec = specs.BoundedArray((len(spans),), np.int32, first, first + counts - 1, CATEGORIES)
  observation = [random.randrange(low, low + count) for low, count in spans]  # type: ignore[attr-defined]
  expected = [
    float(value == low + k) for (low, count), value in zip(spans, observation, strict=True) for k in range(count)
  ]
  assert encoding_of(spec).in_numpy(np.array([observation], np.int32)).tolist() == [expected]


def test_more_categories_than_a_network_should_have_are_refused() -> None:
  with pytest.raises(UserError, match=r"observations have 200000 categories in all"):
    encoding_of(_spec(gymnasium.spaces.Discrete(200_000)).observations)


@pytest.mark.parametrize("normalized", [False, True])
def test_module_and_numpy_agree_on_categories(normalized: bool) -> None:
  config, spec = make_run((8,), normalize_observations=normalized), _spec(gymnasium.spaces.MultiDiscrete([3, 4]))
  network = make_q_network(config, spec, seed=1)
  observations = np.array([[0, 3], [2, 1]], np.int32)
  acting = make_acting_q_network(config, spec, flatten_weights(network))
  values = network(network.features(tf.constant(observations))).numpy()
  np.testing.assert_allclose(acting.values(observations), values, rtol=1e-5, atol=1e-6)

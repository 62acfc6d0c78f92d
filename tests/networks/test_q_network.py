"""The Q-network and its weights as one vector."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from configs import DdqnConfig, EnvironmentConfig, LearnerConfig, NetworkConfig, RunConfig, UserError
from environments import make_environment_spec, make_event_environment
from networks import assign_weights, flatten_weights, make_acting_q_network, make_q_network

DISCRETE = specs.DiscreteArray(3, np.int32, "action")
CONTINUOUS = specs.BoundedArray((2,), np.float32, -1, 1, "action")


def make_spec(shape=(2,), dtype=np.float32, actions=DISCRETE):
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(specs.Array(shape, dtype), actions, scalar, scalar)


def make_network(hidden_sizes=(4,), seed: int | None = 0, **spec):
  return make_q_network(make_run(hidden_sizes), make_spec(**spec), seed)


def make_run(hidden_sizes=(4,), dueling=False, **network):
  learner = LearnerConfig(algorithm=DdqnConfig(dueling=dueling))
  return RunConfig(network=NetworkConfig(hidden_sizes, **network), learner=learner)


def test_the_output_is_one_value_per_action():
  values = make_network().values(tf.zeros((5, 2)))
  assert (values.shape, values.dtype) == ((5, 3), tf.float32)


@pytest.mark.parametrize(
  ("shape", "dtype"), [((2,), np.float32), ((4, 4, 3), np.uint8), ((), np.int32), ((3,), np.int8), ((3,), np.float64)]
)
def test_observations_of_any_shape_and_number_type_are_taken(shape, dtype):
  network = make_network(shape=shape, dtype=dtype)
  assert network.values(np.ones((2, *shape), dtype)).shape == (2, 3)


def test_the_values_are_those_of_relu_layers():
  network = make_network(hidden_sizes=(2,))
  # Bias before weights, layer by layer; hidden = relu(x @ [[1, -1], [2, 0]] + [0, 1]).
  hidden = [0, 1, 1, -1, 2, 0]
  output = [0.5, 0, 0, 1, 0, 2, 0, 1, 3]
  assign_weights(network, np.array(hidden + output, np.float32))
  # [3, 1] -> relu([5, -2]) = [5, 0] -> [5, 0, 10] + [0.5, 0, 0]
  # [-1, 1] -> relu([1, 2]) = [1, 2] -> [1, 2, 8] + [0.5, 0, 0]
  np.testing.assert_allclose(network(np.array([[3, 1], [-1, 1]], np.float32)), [[5.5, 0, 10], [1.5, 2, 8]])


def test_no_hidden_layer_makes_a_linear_network():
  network = make_network(hidden_sizes=())
  assert flatten_weights(network).shape == (3 + 2 * 3,)


def test_variables_are_made_with_the_network():
  assert len(make_network(hidden_sizes=(4, 4)).trainable_variables) == 6


def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before():
  first = flatten_weights(make_network(seed=7))
  tf.random.normal((3,))
  np.testing.assert_array_equal(first, flatten_weights(make_network(seed=7)))


def test_other_seeds_give_other_weights():
  assert not np.array_equal(flatten_weights(make_network(seed=7)), flatten_weights(make_network(seed=8)))


def test_no_seed_gives_other_weights_each_time():
  assert not np.array_equal(flatten_weights(make_network(seed=None)), flatten_weights(make_network(seed=None)))


def test_layers_of_the_same_shape_start_with_different_weights():
  network = make_network(hidden_sizes=(3, 3, 3), shape=(3,))
  weights = [variable.numpy() for variable in network.trainable_variables if variable.shape == (3, 3)]
  assert len({array.tobytes() for array in weights}) == 4


def test_weights_start_at_the_scale_of_their_inputs_and_biases_at_0():
  network = make_network(hidden_sizes=(400,), shape=(100,))
  bias, weights, *_ = (variable.numpy() for variable in network.variables)
  np.testing.assert_array_equal(bias, np.zeros(400))
  assert np.abs(weights).max() <= 2 / 10  # Truncated at two deviations of 1/sqrt(100).
  assert 0.08 < weights.std() < 0.1


def test_continuous_actions_are_refused():
  with pytest.raises(
    UserError, match=r"actions are continuous \(shape \(2,\), float32\), but ddqn chooses among discrete"
  ):
    make_network(actions=CONTINUOUS)


def test_weights_survive_as_a_vector():
  source, target = make_network(hidden_sizes=(4, 5), seed=1), make_network(hidden_sizes=(4, 5), seed=2)
  vector = flatten_weights(source)
  assert vector.shape == (4 + 8 + 5 + 20 + 3 + 15,)
  assert vector.dtype == np.float32
  assign_weights(target, vector)
  np.testing.assert_array_equal(flatten_weights(target), vector)
  observations = np.ones((2, 2), np.float32)
  np.testing.assert_array_equal(source(observations), target(observations))


def test_more_than_ten_layers_keep_their_order():
  network = make_network(hidden_sizes=tuple(range(2, 14)))
  sizes = [variable.shape[-1] for variable in network.variables]
  assert sizes == [size for size in (*range(2, 14), 3) for _ in "bw"]


def test_a_vector_is_a_copy_of_the_weights():
  network = make_network()
  vector = flatten_weights(network)
  assign_weights(network, np.zeros_like(vector))
  assert vector.any()


@pytest.mark.parametrize("shape", [(26,), (28,), (1, 27), ()])
def test_a_vector_of_another_shape_is_refused_and_changes_nothing(shape):
  network = make_network()
  before = flatten_weights(network)
  assert before.shape == (27,)
  with pytest.raises(UserError, match=r"The weights have the shape .*, but this network takes \(27,\): use one config"):
    assign_weights(network, np.zeros(shape, np.float32))
  np.testing.assert_array_equal(flatten_weights(network), before)


def test_a_network_is_made_for_the_world_of_a_run():
  config = RunConfig(environment=EnvironmentConfig("three_rooms"))
  network = make_q_network(config, make_environment_spec(make_event_environment(config)), seed=0)
  assert flatten_weights(network).shape == (256 + 3 * 256 + 3 + 256 * 3,)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(
  ("hidden_sizes", "dueling"), [((), False), ((7,), False), ((5, 3), False), ((7,), True), ((5, 3), True)]
)
@pytest.mark.parametrize("shape", [(3,), (2, 4), ()])
def test_the_acting_network_gives_the_values_of_the_sonnet_network(hidden_sizes, dueling, shape, normalized):
  spec = make_spec(shape)
  run = make_run(hidden_sizes, dueling=dueling, normalize_observations=normalized)
  network = make_q_network(run, spec, seed=5)
  for variable in network.variables:
    variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))  # Biases and shifts too must count.
  observations = np.random.default_rng(0).normal(size=(6, *shape)).astype(np.float32)
  acting = make_acting_q_network(run, spec, flatten_weights(network))
  values = network.values(observations).numpy()
  np.testing.assert_allclose(acting.values(observations), values, rtol=1e-4, atol=1e-5)
  # More rows are computed in another way.
  many = np.concatenate([observations] * 3)
  np.testing.assert_allclose(acting.values(many), np.concatenate([values] * 3), rtol=1e-4, atol=1e-5)
  best = acting.best(observations)
  assert best.dtype == np.int32
  np.testing.assert_array_equal(best, network.best_actions(observations))
  explored, extras = acting.explore(observations, np.random.default_rng(0))
  np.testing.assert_array_equal(explored, best)
  assert extras == {}


@pytest.mark.parametrize("rows", [2, 5, 8])
def test_the_values_of_a_few_observations_are_to_the_last_bit_those_of_each_alone(rows):
  run, spec = make_run((64, 64)), make_spec((100,))
  acting = make_acting_q_network(run, spec, flatten_weights(make_q_network(run, spec, seed=5)))
  observations = np.random.default_rng(0).normal(size=(rows, 100)).astype(np.float32)
  alone = np.concatenate([acting.values(observations[row : row + 1]) for row in range(rows)])
  np.testing.assert_array_equal(acting.values(observations), alone)


def test_a_duelling_networks_values_are_the_states_and_the_advantages_less_their_mean():
  network = make_q_network(make_run((1,), dueling=True), make_spec((1,)), seed=0)
  # Both streams pass a positive observation on: V = 2 x + 1, A = (0, 1, 5) x.
  advantages, state_value = [0, 1, 0, 0, 0, 0, 1, 5], [0, 1, 1, 2]
  assign_weights(network, np.array(advantages + state_value, np.float32))
  np.testing.assert_allclose(network.values(np.array([[3]], np.float32)), [[7 - 6, 7 + 3 - 6, 7 + 15 - 6]])


def test_the_streams_of_a_duelling_network_share_no_weights():
  network = make_q_network(make_run((4, 5), dueling=True), make_spec(), seed=0)
  # Shared 2 -> 4; advantages 4 -> 5 -> 3; state's value 4 -> 5 -> 1.
  assert flatten_weights(network).shape == ((8 + 4) + (20 + 5 + 15 + 3) + (20 + 5 + 5 + 1),)


def test_the_acting_network_refuses_weights_of_another_network():
  with pytest.raises(UserError, match="this network takes"):
    make_acting_q_network(make_run(), make_spec(), np.zeros(3, np.float32))

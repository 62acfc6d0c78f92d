"""`NetworkConfig.initializer`, `output_scale` and `activation`, in every kind of network."""

import math

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from configs import (
  ActorConfig,
  DdqnConfig,
  LearnerConfig,
  NetworkConfig,
  ReplayConfig,
  RunConfig,
  UserError,
)
from configs.algorithms import ALGORITHMS, AlgorithmConfig
from networks import (
  StackedMlp,
  flatten_weights,
  make_acting_policy,
  make_acting_q_network,
  make_critics,
  make_policy,
  make_q_network,
)
from networks.encoding import Encoding
from networks.layers import FanIn, Glorot, Mlp
from networks.q_network import QNetwork
from tests.networks.test_policy_networks import make_spec, shifted

REFER = NetworkConfig((40, 60), activation="softsign", initializer="glorot", output_scale=0.1)
DISCRETE = specs.DiscreteArray(3, np.int32)


def _run(algorithm: AlgorithmConfig, network: NetworkConfig) -> RunConfig:
  return RunConfig(
    replay=ReplayConfig(sampling="memory", unit="episodes"),
    network=network,
    learner=LearnerConfig(algorithm=algorithm),
    actor=ActorConfig(random_steps=0),
  )


def _layers(module) -> list[np.ndarray]:
  """The weights of layers, [..., inputs, outputs] each, first to last."""
  return [variable.numpy() for variable in module.trainable_variables if variable.name.split("/")[-1].startswith("w")]


def _is_uniform(weights: np.ndarray, bound: float) -> bool:
  """Whether weights fill [-bound, bound] evenly: no farther, nearly as far, and with the deviation of a uniform."""
  largest = np.abs(weights).max()
  is_even = abs(weights.std() / (bound / math.sqrt(3)) - 1) < 0.15 and abs(weights.mean()) < 0.15 * bound
  return bool(0.9 * bound < largest <= bound and is_even)


@pytest.mark.parametrize("name", ["sac", "td3", "naf", "v_racer"])
def test_hidden_layers_are_uniform_by_glorot_and_the_output_layer_by_its_scale(name: str):
  first, second, last = _layers(make_policy(_run(ALGORITHMS[name](), REFER), make_spec(shape=(20,)), seed=3))
  assert _is_uniform(first, math.sqrt(6 / (20 + 40)))
  assert _is_uniform(second, math.sqrt(6 / (40 + 60)))
  assert _is_uniform(last, 0.1 / math.sqrt(60))


def test_so_are_those_of_each_of_several_critics_which_differ():
  critics = make_critics(_run(ALGORITHMS["sac"](), REFER), make_spec(shape=(18,)), outputs=3, seed=3)
  layers = _layers(critics)
  bounds = (math.sqrt(6 / (20 + 40)), math.sqrt(6 / (40 + 60)), 0.1 / math.sqrt(60))
  for weights, bound in zip(layers, bounds, strict=True):
    assert all(_is_uniform(each, bound) for each in weights)
    assert not np.array_equal(weights[0], weights[1])


def test_in_a_duelling_network_only_the_ends_of_both_streams_are_output_layers():
  network = QNetwork(Encoding(20), 30, REFER, seed=1, mixed_precision=False, dueling=True)
  advantages_hidden, advantages, shared, value_hidden, value = _layers(network)
  assert _is_uniform(shared, math.sqrt(6 / (20 + 40)))
  assert _is_uniform(advantages_hidden, math.sqrt(6 / (40 + 60)))
  assert _is_uniform(value_hidden, math.sqrt(6 / (40 + 60)))
  assert _is_uniform(advantages, 0.1 / math.sqrt(60))
  assert np.abs(value).max() <= 0.1 / math.sqrt(60)


def test_one_field_alone_changes_its_layers_alone():
  plain = _layers(Mlp((20, 40, 30), 7))
  hidden = _layers(Mlp((20, 40, 30), 7, network=NetworkConfig(initializer="glorot")))
  scaled = _layers(Mlp((20, 40, 30), 7, network=NetworkConfig(output_scale=0.1)))
  np.testing.assert_array_equal(hidden[1], plain[1])
  np.testing.assert_array_equal(scaled[0], plain[0])
  assert _is_uniform(hidden[0], math.sqrt(6 / 60))
  assert _is_uniform(scaled[1], 0.1 / math.sqrt(40))


def test_a_network_without_hidden_layers_is_an_output_layer():
  (weights,) = _layers(Mlp((50, 40), 7, network=REFER))
  assert _is_uniform(weights, 0.1 / math.sqrt(50))


@pytest.mark.parametrize("network", [NetworkConfig(), REFER], ids=["default", "refer"])
def test_a_seed_gives_the_same_weights_each_time_and_another_one_others(network: NetworkConfig):
  for make in (
    lambda seed: Mlp((6, 5, 4), seed, network=network),
    lambda s: StackedMlp(2, (6, 5, 4), s, False, network),
  ):
    first, again, other = (flatten_weights(make(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_initialisers_are_those_of_their_formulas():
  shape, seed = (2, 4, 12), (3, 1)
  uniform = tf.random.stateless_uniform(shape, seed, -1.0, 1.0).numpy()
  np.testing.assert_allclose(Glorot(seed)(shape, tf.float32), uniform * math.sqrt(6 / 16), rtol=1e-5, atol=1e-7)
  normal = tf.random.stateless_truncated_normal(shape, seed, stddev=0.5).numpy()
  np.testing.assert_array_equal(FanIn(seed)(shape, tf.float32), normal)


def test_softsign_is_x_over_1_plus_its_size():
  mlp = Mlp((1, 3, 1), 0, network=NetworkConfig(activation="softsign"))
  bias, weights, last_bias, last_weights = mlp.variables
  bias.assign([0.0, 1.0, -3.0])
  weights.assign([[1.0, 0.0, 0.0]])
  last_bias.assign([10.0])
  last_weights.assign([[4.0], [100.0], [1000.0]])
  # Softsigns of (2, 1, -3) and (-4, 1, -3).
  expected = [[10 + 4 * 2 / 3 + 50 - 750], [10 - 4 * 4 / 5 + 50 - 750]]
  np.testing.assert_allclose(mlp(tf.constant([[2.0], [-4.0]])), expected, rtol=1e-6)


@pytest.mark.parametrize("side_by_side", [False, True])
def test_stacked_networks_have_the_activation_too(side_by_side: bool, monkeypatch: pytest.MonkeyPatch):
  monkeypatch.setattr("networks.layers.operations_at_once", lambda: 1 + side_by_side)
  stacked = shifted(StackedMlp(2, (3, 5, 2), 1, False, REFER))
  first_bias, last_bias, first, last = (variable.numpy() for variable in stacked.variables)
  inputs = np.random.default_rng(0).normal(size=(4, 3))
  for index in range(2):
    hidden = inputs @ first[index] + first_bias[index]
    hidden /= 1 + np.abs(hidden)
    expected = hidden @ last[index] + last_bias[index]
    np.testing.assert_allclose(stacked(tf.constant(inputs, tf.float32))[index], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg", "naf", "v_racer"])
def test_policies_act_with_it_as_they_learn_with_it(name: str):
  run = _run(ALGORITHMS[name](), NetworkConfig((5, 4), activation="softsign"))
  network = shifted(make_policy(run, make_spec(), seed=5))
  observations = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
  best = make_acting_policy(run, make_spec(), flatten_weights(network)).best(observations)
  np.testing.assert_allclose(best, network.best_actions(observations), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
def test_so_do_value_networks(dueling: bool):
  run = _run(DdqnConfig(dueling=dueling), NetworkConfig((5, 4), activation="softsign"))
  network = shifted(make_q_network(run, make_spec(DISCRETE), seed=5))
  observations = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
  values = make_acting_q_network(run, make_spec(DISCRETE), flatten_weights(network)).values(observations)
  np.testing.assert_allclose(values, network.values(observations), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  ("fields", "sentence"),
  [
    ({"activation": "tanh"}, r"network\.activation is 'tanh': use one of relu, softsign\.$"),
    ({"initializer": "he"}, r"network\.initializer is 'he': use one of fan_in, glorot\.$"),
    ({"output_scale": 0.0}, r"network\.output_scale is 0\.0: it must be a finite number above 0\.$"),
    ({"output_scale": math.nan}, r"network\.output_scale is nan"),
  ],
)
def test_a_value_that_makes_no_sense_is_refused(fields, sentence):
  with pytest.raises(UserError, match=sentence):
    NetworkConfig(**fields)

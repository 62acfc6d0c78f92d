"""V-RACER's network: a value and a Gaussian with one deviation for all states, and its counterpart for acting."""

from typing import cast

import numpy as np
import pytest
import tensorflow as tf

from configs import ActorConfig, LearnerConfig, NetworkConfig, ReplayConfig, RunConfig, UserError, VRacerConfig
from configs.algorithms import Advantage
from networks import (
  Trace,
  assign_weights,
  count_weights,
  flatten_weights,
  make_acting_policy,
  make_policy,
  make_value_gaussian_policy,
)
from tests.networks.test_policy_networks import make_spec, shifted


def _run(
  hidden: tuple[int, ...] = (5,),
  deviation: float = VRacerConfig.initial_deviation,
  advantage: Advantage = "none",
  **network,
) -> RunConfig:
  learner = LearnerConfig(algorithm=VRacerConfig(deviation, advantage))
  replay = ReplayConfig(sampling="memory", unit="episodes")
  return RunConfig(
    replay=replay, network=NetworkConfig(hidden, **network), learner=learner, actor=ActorConfig(random_steps=0)
  )


def test_at_first_the_covariance_is_a_fifth_of_the_identity():
  network = make_value_gaussian_policy(_run(), make_spec(), seed=0)
  _, _, deviation, _ = network(tf.ones((4, 3)))
  np.testing.assert_allclose(tf.square(deviation), [0.2, 0.2], rtol=1e-5)


@pytest.mark.parametrize("deviation", [1e-3, 0.3, 1.0, 30.0])
def test_the_initial_deviation_is_the_configs(deviation: float):
  network = make_value_gaussian_policy(_run(deviation=deviation), make_spec(), seed=0)
  np.testing.assert_allclose(network(tf.ones((1, 3)))[2], [deviation] * 2, rtol=1e-4)


@pytest.mark.parametrize("deviation", [0.0, -1.0, float("nan")])
def test_a_deviation_that_is_not_above_0_is_refused(deviation: float):
  with pytest.raises(UserError, match=r"learner\.algorithm\.initial_deviation is .*: it must be a finite number above"):
    VRacerConfig(deviation)


def test_an_unknown_advantage_is_refused():
  with pytest.raises(
    UserError, match=r"learner\.algorithm\.advantage is 'cubic': use one of none, quadratic, gaussian\."
  ):
    VRacerConfig(advantage=cast("Advantage", "cubic"))


def test_its_outputs_are_the_value_the_means_and_the_softplus_of_the_shared_vector():
  network = make_value_gaussian_policy(_run(hidden=()), make_spec(), seed=0)
  # The shared vector, the biases (V, then m), and weights by which V is the sum of the observation.
  weights = np.zeros((3, 3))
  weights[:, 0] = 1
  assign_weights(network, np.array([0, 2, 7, 0.5, -2.5, *weights.ravel()], np.float32))
  value, mean, deviation, coefficients = network(network.features(np.array([[1, 2, 3], [0, 0, 1]], np.float32)))
  assert coefficients.shape == (2, 0)
  np.testing.assert_allclose(value, [13, 8])
  np.testing.assert_allclose(mean, [[0.5, -2.5]] * 2)
  np.testing.assert_allclose(deviation, np.log1p(np.exp([0, 2])), rtol=1e-6)
  np.testing.assert_allclose(network.best_actions(np.ones((2, 3), np.float32)), [[0.5, -1]] * 2)


def test_the_deviation_learns_with_the_layers():
  network = make_value_gaussian_policy(_run(), make_spec(), seed=0)
  with tf.GradientTape() as tape:
    value, mean, deviation, _ = network(tf.ones((4, 3)))
    total = tf.reduce_sum(value) + tf.reduce_sum(mean) + tf.reduce_sum(tf.constant([1.0, 3.0]) * deviation)
  gradients = tape.gradient(total, network.trainable_variables)
  (index,) = [place for place, each in enumerate(network.trainable_variables) if each is network.raw_deviation]
  slope = 1 / (1 + np.exp(-network.raw_deviation.numpy()))
  np.testing.assert_allclose(gradients[index], slope * [1, 3], rtol=1e-5)
  assert all(gradient is not None for gradient in gradients)


def test_every_layer_is_traced():
  network = make_value_gaussian_policy(_run(hidden=(5, 4)), make_spec(), seed=0)
  trace: Trace = []
  network(tf.ones((2, 3)), trace)
  assert [(inputs.shape[-1], outputs.shape[-1]) for inputs, outputs in trace] == [(3, 5), (5, 4), (4, 3)]


@pytest.mark.parametrize(("advantage", "count"), [("none", 0), ("quadratic", 3), ("gaussian", 5)])
def test_an_advantage_adds_its_coefficients(advantage: Advantage, count: int):
  network = make_value_gaussian_policy(_run(advantage=advantage), make_spec(), seed=0)
  value, mean, deviation, coefficients = network(tf.ones((4, 3)))
  assert [part.shape for part in (value, mean, deviation, coefficients)] == [(4,), (4, 2), (2,), (4, count)]


@pytest.mark.parametrize("advantage", ["none", "quadratic", "gaussian"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("hidden", [(), (7,), (5, 3)])
def test_acting_gives_its_means_clipped_and_its_gaussian(
  hidden: tuple[int, ...], normalized: bool, advantage: Advantage
):
  run = _run(hidden=hidden, normalize_observations=normalized, advantage=advantage)
  network = shifted(make_policy(run, make_spec(), seed=5))
  vector = flatten_weights(network)
  assert count_weights(run, make_spec()) == len(vector)
  observations = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
  acting = make_acting_policy(run, make_spec(), vector)
  _, mean, deviation, _ = network(network.features(observations))
  assert (np.abs(mean) > 1).any()
  np.testing.assert_allclose(acting.best(observations), np.clip(mean, -1, 1), rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(acting.best(observations), network.best_actions(observations), rtol=1e-4, atol=1e-5)
  actions, extras = acting.explore(observations, np.random.default_rng(1))
  assert extras.keys() == {"behaviour"}
  assert extras["behaviour"].dtype == actions.dtype == np.float32
  np.testing.assert_allclose(extras["behaviour"][:, :2], mean, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(extras["behaviour"][:, 2:], np.tile(deviation, (50, 1)), rtol=1e-5)
  standard = (actions - mean) / deviation
  assert np.abs(standard).max() <= 3.001
  assert np.abs(actions).max() > 1  # Not clipped.


def test_weights_of_another_network_are_refused():
  with pytest.raises(UserError, match=r"have the shape \(3,\), but this network takes \(40,\)"):
    make_acting_policy(_run(), make_spec(), np.zeros(3, np.float32))


def test_its_rows_hold_the_behaviour():
  assert LearnerConfig(algorithm=VRacerConfig()).row_fields((3,)) == {"behaviour": ("float32", (6,))}

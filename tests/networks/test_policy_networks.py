"""Policy networks, the squashed Gaussian, and their forward passes in numpy."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from configs import DdpgConfig, DdqnConfig, LearnerConfig, NetworkConfig, RunConfig, SacConfig, Td3Config, UserError
from configs.algorithms import ALGORITHMS
from networks import (
  count_weights,
  flatten_weights,
  make_acting_policy,
  make_critics,
  make_gaussian_policy,
  make_policy,
  squash,
)

ACTIONS = specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action")


def make_spec(actions=ACTIONS, shape=(3,)):
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(specs.Array(shape, np.float32), actions, scalar, scalar)


def make_run(algorithm="sac", hidden_sizes=(5, 4), **network):
  """A run with the defaults of an algorithm."""
  learner = LearnerConfig(algorithm=ALGORITHMS[algorithm]())
  return RunConfig(network=NetworkConfig(hidden_sizes, **network), learner=learner)


def shifted(module):
  """The module with biases, shifts and scales that differ from those of a new network."""
  for variable in module.variables:
    variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
  return module


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg", "naf", "ddqn", "dueling"])
def test_weights_are_counted_without_the_network(algorithm: str, normalize: bool):
  run = make_run(algorithm if algorithm != "dueling" else "ddqn", (5, 4, 6), normalize_observations=normalize)
  if algorithm == "dueling":
    run = dataclasses.replace(run, learner=LearnerConfig(algorithm=DdqnConfig(dueling=True)))
  spec = make_spec(ACTIONS if algorithm not in ("ddqn", "dueling") else specs.DiscreteArray(3))
  assert count_weights(run, spec) == len(flatten_weights(make_policy(run, spec, 0)))


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.5), (-1.2, 0.5), (3.0, -3.0)])
def test_the_log_density_integrates_to_one_over_the_actions(mean: float, log_std: float):
  # Evenly spaced over the noise; the widths of the integral are the differences between neighbouring actions.
  noise = np.linspace(-8, 8, 20_001).astype(np.float32)[:, None]
  actions, log_probs = squash(tf.fill(noise.shape, mean), tf.fill(noise.shape, log_std), noise)
  before = mean + math.exp(log_std) * noise[:, 0].astype(np.float64)
  exact_actions = np.tanh(before)
  np.testing.assert_allclose(actions[:, 0], exact_actions, atol=1e-6)
  density = np.exp(log_probs.numpy().astype(np.float64))
  integral = np.sum(0.5 * (density[1:] + density[:-1]) * np.diff(exact_actions))
  assert integral == pytest.approx(1, abs=2e-3)


def test_the_log_density_is_that_of_the_change_of_variables():
  mean, log_std, noise = (np.array([row], np.float32) for row in ([0.3, -0.5], [-0.2, 0.4], [1.1, -0.7]))
  _, log_prob = squash(mean, log_std, noise)
  std = np.exp(log_std)
  before = mean + std * noise
  normal = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
  expected = np.sum(normal - np.log(1 - np.tanh(before) ** 2))
  np.testing.assert_allclose(log_prob, [expected], rtol=1e-5)


@pytest.mark.parametrize("mean", [-40.0, 40.0])
def test_density_and_gradient_are_finite_where_the_action_is_at_its_bound(mean: float):
  means = tf.constant([[mean]])
  log_stds = tf.constant([[-1.0]])
  with tf.GradientTape() as tape:
    tape.watch((means, log_stds))
    actions, log_probs = squash(means, log_stds, tf.constant([[2.0]]))
    total = tf.reduce_sum(actions) + tf.reduce_sum(log_probs)
  gradients = tape.gradient(total, (means, log_stds))
  assert abs(float(actions)) == 1
  assert all(np.isfinite(value).all() for value in (log_probs.numpy(), *(part.numpy() for part in gradients)))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("hidden_sizes", [(), (7,), (5, 3)])
@pytest.mark.parametrize("algorithm", ["sac", "qr_sac", "td3", "ddpg", "naf"])
def test_acting_gives_the_actions_of_the_sonnet_network(algorithm: str, hidden_sizes, normalized: bool):
  run = make_run(algorithm, hidden_sizes, normalize_observations=normalized)
  network = shifted(make_policy(run, make_spec(), seed=5))
  observations = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
  best = make_acting_policy(run, make_spec(), flatten_weights(network)).best(observations)
  assert best.shape == (6, 2)
  assert best.dtype == np.float32
  np.testing.assert_allclose(best, network.best_actions(observations), rtol=1e-4, atol=1e-5)


def test_a_gaussian_policy_explores_by_its_distribution():
  run = make_run(hidden_sizes=(7,))
  network = shifted(make_gaussian_policy(run, make_spec(), seed=5))
  acting = make_acting_policy(run, make_spec(), flatten_weights(network))
  observation = np.array([[0.1, -0.2, 0.3]], np.float32)
  drawn, _ = acting.explore(np.repeat(observation, 20_000, axis=0), np.random.default_rng(1))
  mean, log_std = (part.numpy()[0] for part in network(network.features(observation)))
  before = np.arctanh(np.clip(drawn.astype(np.float64), -1 + 1e-7, 1 - 1e-7))
  # Quartiles, which clipping does not move.
  low, middle, high = np.quantile(before, [0.25, 0.5, 0.75], axis=0)
  np.testing.assert_allclose(middle, mean, atol=0.05 * np.exp(log_std).max())
  np.testing.assert_allclose((high - low) / 1.349, np.exp(log_std), rtol=0.05)


@pytest.mark.parametrize("kind", [Td3Config, DdpgConfig])
def test_a_deterministic_policy_explores_with_the_configs_noise_and_within_the_bounds(
  kind: type[Td3Config] | type[DdpgConfig],
):
  run = RunConfig(network=NetworkConfig((7,)), learner=LearnerConfig(algorithm=kind(action_noise=0.2)))
  network = make_policy(run, make_spec(), seed=5)
  acting = make_acting_policy(run, make_spec(), flatten_weights(network))
  observation = np.zeros((20_000, 3), np.float32)
  explored, _ = acting.explore(observation, np.random.default_rng(1))
  noise = explored - acting.best(observation)
  np.testing.assert_allclose(noise.std(axis=0), 0.2, rtol=0.05)
  far = make_acting_policy(run, make_spec(), flatten_weights(network) + 10)
  explored, _ = far.explore(np.ones((500, 3), np.float32), np.random.default_rng(1))
  assert np.abs(explored).max() == 1


def test_with_noise_that_each_environment_remembers_a_policy_adds_none_itself():
  run = RunConfig(network=NetworkConfig((7,)), learner=LearnerConfig(algorithm=DdpgConfig(noise="ornstein_uhlenbeck")))
  acting = make_acting_policy(run, make_spec(), flatten_weights(make_policy(run, make_spec(), seed=5)))
  observations = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
  explored, extras = acting.explore(observations, np.random.default_rng(1))
  np.testing.assert_array_equal(explored, acting.best(observations))
  assert extras == {}


def test_dropout_is_on_in_training_and_off_in_acting():
  run = RunConfig(network=NetworkConfig((400,)), learner=LearnerConfig(algorithm=SacConfig(policy_dropout=0.5)))
  network = make_gaussian_policy(run, make_spec(), seed=1)
  features = network.features(np.ones((2, 3), np.float32))
  plain = make_gaussian_policy(make_run(hidden_sizes=(400,)), make_spec(), seed=1)
  np.testing.assert_array_equal(network(features)[0], plain(features)[0])
  np.testing.assert_array_equal(plain(features, is_training=True)[0], plain(features)[0])
  first, second = (network(features, is_training=True)[0].numpy() for _ in range(2))
  assert not np.array_equal(first, second)
  acting = make_acting_policy(run, make_spec(), flatten_weights(network))
  np.testing.assert_allclose(acting.best(np.ones((1, 3), np.float32))[0], np.tanh(plain(features)[0][0]), rtol=1e-5)


def test_stacked_critics_are_independent_networks():
  critics = make_critics(make_run(), make_spec(), outputs=3, seed=2)
  inputs = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
  outputs = critics(inputs).numpy()
  assert outputs.shape == (2, 4, 3)
  arrays = [variable.numpy() for variable in critics.variables]
  biases, weights = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
  for index in range(2):
    hidden = inputs
    for layer, (bias, weight) in enumerate(zip(biases, weights, strict=True)):
      hidden = hidden @ weight[index] + bias[index]
      if layer < 2:
        hidden = np.maximum(hidden, 0)
    np.testing.assert_allclose(outputs[index], hidden, rtol=1e-4, atol=1e-5)
  assert not np.allclose(outputs[0], outputs[1])


@pytest.mark.parametrize("algorithm", ["sac", "qr_sac", "td3", "ddpg", "naf"])
def test_discrete_actions_are_refused(algorithm: str):
  with pytest.raises(UserError, match=f"has 3 discrete actions, but {algorithm} chooses continuous ones"):
    make_policy(make_run(algorithm), make_spec(specs.DiscreteArray(3, np.int32)))


@pytest.mark.parametrize(
  "actions",
  [specs.BoundedArray((2,), np.float32, -np.inf, np.inf), specs.BoundedArray((2, 2), np.float32, -1, 1)],
)
def test_actions_without_bounds_or_of_another_rank_are_refused(actions):
  with pytest.raises(UserError, match="chooses vectors of numbers between finite bounds"):
    make_policy(make_run(), make_spec(actions))


def test_weights_of_another_policy_are_refused():
  with pytest.raises(UserError, match="this network takes"):
    make_acting_policy(make_run(), make_spec(), np.zeros(3, np.float32))

"""NAF's network: its three outputs, and its counterpart for acting."""

import numpy as np
import pytest
import tensorflow as tf

from configs import LearnerConfig, NafConfig, NetworkConfig, RunConfig, UserError
from networks import Trace, assign_weights, count_weights, flatten_weights, make_acting_policy, make_naf_network
from networks.encoding import Encoding
from networks.naf_network import NafNetwork, output_count
from tests.networks.test_policy_networks import make_spec, shifted


def _run(noise: float = 0.2, hidden: tuple[int, ...] = (5,), **network) -> RunConfig:
  return RunConfig(
    network=NetworkConfig(hidden, **network), learner=LearnerConfig(algorithm=NafConfig(action_noise=noise))
  )


def _softplus(values: np.ndarray) -> np.ndarray:
  result: np.ndarray = np.log1p(np.exp(values))
  return result


@pytest.mark.parametrize(("dimensions", "outputs"), [(1, 3), (2, 6), (3, 10), (17, 171)])
def test_it_has_an_output_for_the_value_each_mean_and_each_entry_of_the_triangle(dimensions: int, outputs: int):
  assert output_count(dimensions) == outputs


def test_its_outputs_are_the_value_the_means_and_the_triangle_row_by_row():
  network = make_naf_network(_run(hidden=()), make_spec(), seed=0)
  # Without a hidden layer the outputs are the biases: V, m, then L's entries (0, 0), (1, 0), (1, 1).
  assign_weights(network, np.array([7, 0.5, -2.5, 1, -4, -1, *np.zeros(18)], np.float32))
  value, mean, lower = network(network.features(np.ones((2, 3), np.float32)))
  np.testing.assert_allclose(value, [7, 7])
  np.testing.assert_allclose(mean, [[0.5, -2.5]] * 2)
  one, minus_one = _softplus(np.array([1.0, -1.0]))
  np.testing.assert_allclose(lower, [[[one, 0], [-4, minus_one]]] * 2, rtol=1e-6)
  np.testing.assert_allclose(network.best_actions(np.ones((2, 3), np.float32)), [[0.5, -1]] * 2)


def test_the_triangle_is_filled_row_by_row_in_any_dimension_and_is_positive_definite():
  network = shifted(NafNetwork(Encoding(3), 4, NetworkConfig((6,)), seed=1, mixed_precision=False))
  features = tf.constant(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
  _, _, lower = network(features)
  bias, weights, last_bias, last_weights = (variable.numpy() for variable in network.variables)
  outputs = np.maximum(features.numpy() @ weights + bias, 0) @ last_weights + last_bias
  for row in range(5):
    entries = iter(outputs[row, 5:])
    expected = np.zeros((4, 4))
    for i in range(4):
      for j in range(i + 1):
        entry = next(entries)
        expected[i, j] = _softplus(entry) if i == j else entry
    np.testing.assert_allclose(lower[row], expected, rtol=1e-4, atol=1e-5)
    assert (np.linalg.eigvalsh(expected @ expected.T) > 0).all()


def test_every_layer_is_traced():
  network = make_naf_network(_run(hidden=(5, 4)), make_spec(), seed=0)
  trace: Trace = []
  network(tf.ones((2, 3)), trace)
  assert [(inputs.shape[-1], outputs.shape[-1]) for inputs, outputs in trace] == [(3, 5), (5, 4), (4, 6)]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("hidden", [(), (7,), (5, 3)])
def test_acting_gives_its_means_clipped_to_the_bounds(hidden: tuple[int, ...], normalized: bool):
  run = _run(hidden=hidden, normalize_observations=normalized)
  network = shifted(make_naf_network(run, make_spec(), seed=5))
  vector = flatten_weights(network)
  assert count_weights(run, make_spec()) == len(vector)
  observations = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
  acting = make_acting_policy(run, make_spec(), vector)
  _, mean, _ = network(network.features(observations))
  assert (np.abs(mean) > 1).any()
  best = acting.best(observations)
  assert best.dtype == np.float32
  np.testing.assert_allclose(best, np.clip(mean, -1, 1), rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(best, network.best_actions(observations), rtol=1e-4, atol=1e-5)


def test_it_explores_with_noise_around_its_means_and_within_the_bounds():
  run = _run(noise=0.3)
  network = make_naf_network(run, make_spec(), seed=5)
  acting = make_acting_policy(run, make_spec(), flatten_weights(network))
  observations = np.zeros((20_000, 3), np.float32)
  explored, extras = acting.explore(observations, np.random.default_rng(1))
  assert extras == {}
  # At 0 the biases, which are 0, are the means.
  np.testing.assert_allclose(np.median(explored, axis=0), 0, atol=0.02)
  np.testing.assert_allclose(explored.std(axis=0), 0.3, rtol=0.05)
  assert np.abs(explored).max() == 1


def test_weights_of_another_network_are_refused():
  with pytest.raises(UserError, match=r"have the shape \(3,\), but this network takes \(56,\)"):
    make_acting_policy(_run(), make_spec(), np.zeros(3, np.float32))

"""Networks in mixed precision: float16 inside, float32 outputs."""

import numpy as np
import pytest
import tensorflow as tf

from networks import Encoding
from networks.layers import Mlp, StackedMlp, Trace
from networks.q_network import QNetwork
from tests.networks.test_q_network import make_run


def _mlp(mixed_precision, hidden_sizes=(16, 16)):
  return Mlp((3, *hidden_sizes, 2), seed=1, mixed_precision=mixed_precision)


def _stacked(mixed_precision, hidden_sizes=(16, 16)):
  return StackedMlp(2, (3, *hidden_sizes, 2), seed=1, mixed_precision=mixed_precision)


def _values(mixed_precision, hidden_sizes=(16, 16)):
  return QNetwork(Encoding(3), 2, make_run(hidden_sizes).network, seed=1, mixed_precision=mixed_precision)


def _duelling(mixed_precision, hidden_sizes=(16, 16)):
  return QNetwork(Encoding(3), 2, make_run(hidden_sizes).network, seed=1, mixed_precision=mixed_precision, dueling=True)


NETWORKS = pytest.mark.parametrize("make", [_mlp, _stacked, _values, _duelling])


@NETWORKS
def test_outputs_are_not_rounded_to_float16_where_they_are_large(make):
  mixed, plain = make(True), make(False)
  inputs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
  moved = 0
  for variable, other in zip(mixed.variables, plain.variables, strict=True):
    # The bias of the output layer: two numbers, or one for the value of a state.
    if variable.name.split("/")[-1][0] == "b" and variable.shape[-1] in (1, 2):
      moved += 1
      for each in (variable, other):
        each.assign_add(1_000.0 * tf.ones_like(each))
  assert moved in (1, 2)
  ours, theirs = mixed(inputs).numpy(), plain(inputs).numpy()
  assert ours.dtype == np.float32
  assert theirs.min() > 500
  # float16 numbers are 0.5 apart there.
  np.testing.assert_allclose(ours, theirs, atol=0.02)
  assert np.abs(ours - theirs).max() > 0  # Inside, it is float16.


@NETWORKS
@pytest.mark.parametrize("size", [1e5, -1e5, 1e30])
def test_an_observation_beyond_the_range_of_float16_gives_finite_outputs(make, size):
  # One hidden layer: without a GPU, float16 is summed in float16, and a second layer's sums could be too large.
  network = make(True, (16,))
  inputs = np.array([[0.1, size, -0.3], [0.1, np.sign(size) * 65_504, -0.3]], np.float32)
  outputs = network(inputs).numpy()
  assert np.isfinite(outputs).all()
  assert np.abs(outputs).max() > 1_000
  first, second = np.moveaxis(outputs, -2, 0)
  np.testing.assert_array_equal(first, second)


def test_hidden_layers_are_computed_in_float16_and_a_networks_last_in_float32():
  trace: Trace = []
  _duelling(True)(np.zeros((4, 3), np.float32), trace=trace)
  # The shared layer, two of the advantages, two of the value.
  assert [outputs.dtype for _, outputs in trace] == [tf.float16, tf.float16, tf.float32, tf.float16, tf.float32]
  trace = []
  _stacked(True)(np.zeros((4, 3), np.float32), trace=trace)
  assert [outputs.dtype for _, outputs in trace] == [tf.float16, tf.float16, tf.float32]

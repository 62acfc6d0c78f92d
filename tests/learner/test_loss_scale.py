"""Mixed precision: the loss scale, Adam with it, and algorithms in float16."""

import numpy as np
import pytest
import tensorflow as tf

from learner.adam import Adam
from learner.loss_scale import LossScale
from networks import flatten_weights
from tests.learner.batches import update
from tests.learner.test_actor_critics import NAMES, make, make_run, random_rows, shift

INFINITE = [tf.constant([1.0]), tf.constant([np.inf])]


def test_the_scale_is_taken_off_and_stays_while_gradients_are_finite() -> None:
  scale = LossScale()
  assert float(scale.value) == 2**15
  gradients, is_finite = scale.take_off([tf.constant([2.0**15, 2.0**14]), tf.constant(0.0)])
  np.testing.assert_array_equal(gradients[0], [1.0, 0.5])
  assert bool(is_finite)
  assert float(scale.value) == 2**15


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_overflow_halves_it_down_to_one(bad: float) -> None:
  scale = LossScale()
  values = []
  for _ in range(17):
    _, is_finite = scale.take_off([tf.constant([1.0]), tf.constant([bad])])
    assert not bool(is_finite)
    values.append(float(scale.value))
  assert values == [*(2.0**power for power in range(14, -1, -1)), 1.0, 1.0]


def test_it_doubles_after_2000_steps_without_an_overflow() -> None:
  scale = LossScale()
  take_off = tf.function(scale.take_off)
  good = [tf.constant([1.0]), tf.constant([1.0])]
  for _ in range(1_999):
    take_off(good)
  take_off(INFINITE)
  assert float(scale.value) == 2**14
  for _ in range(1_999):
    take_off(good)
  assert float(scale.value) == 2**14
  take_off(good)
  assert float(scale.value) == 2**15
  take_off(good)
  assert float(scale.value) == 2**15


def test_adam_takes_no_step_where_a_gradient_overflowed() -> None:
  variable = tf.Variable([1.0, 2.0])
  adam = Adam([variable], 0.1, max_norm=1.0, mixed_precision=True)
  adam.apply([tf.constant([np.inf, 1.0])])
  np.testing.assert_array_equal(variable, [1.0, 2.0])
  assert (int(adam.steps), float(adam.loss_scale)) == (0, 2**14)
  adam.apply([adam.loss_scale * tf.constant([3.0, -4.0])])
  # Adam's first step is the learning rate, against the sign.
  np.testing.assert_allclose(variable, [0.9, 2.1], rtol=1e-6)
  assert (int(adam.steps), float(adam.loss_scale)) == (1, 2**14)


def test_adam_with_a_scaled_loss_is_adam() -> None:
  plain, mixed = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
  ours, theirs = Adam([mixed], 0.1, 0.5, mixed_precision=True), Adam([plain], 0.1, 0.5)
  for gradient in ([0.1, -0.2], [3.0, 4.0], [-1e-6, 1e-7]):
    ours.apply([ours.loss_scale * tf.constant(gradient)])
    theirs.apply([theirs.loss_scale * tf.constant(gradient)])
  np.testing.assert_allclose(mixed, plain, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_updates_in_mixed_precision_are_near_those_in_float32(name: str) -> None:
  plain, mixed = make(make_run(name, (16, 16))), make(make_run(name, (16, 16), mixed_precision=True))
  for algorithm in (plain, mixed):
    shift(algorithm, "targets")
  rng = np.random.default_rng(4)
  for _ in range(4):
    rows = random_rows(rng, batch=8)
    (ours, our_errors), (theirs, their_errors) = (update(algorithm, rows[None]) for algorithm in (mixed, plain))
    # float16 has eleven bits.
    np.testing.assert_allclose(our_errors, their_errors, rtol=2e-2, atol=2e-2)
    for metric, value in theirs.items():
      np.testing.assert_allclose(ours[metric], value, rtol=2e-2, atol=2e-2)
  for variable in (*mixed.policy.variables, *mixed.checkpointed["critics"].variables):
    assert variable.dtype == tf.float32
  assert int(mixed.checkpointed["critics_adam"].steps) == 4
  assert not np.array_equal(flatten_weights(mixed.policy), flatten_weights(plain.policy))


@pytest.mark.parametrize("name", NAMES)
def test_what_overflows_in_float16_changes_no_weights(name: str) -> None:
  algorithm = make(make_run(name, mixed_precision=True))
  before = flatten_weights(algorithm.checkpointed["critics"])
  rows = random_rows(np.random.default_rng(0))
  # The targets' gradient is scaled by 2^15, and float16 ends at 65,504.
  weights = np.full((1, len(rows)), 100.0)
  update(algorithm, rows[None], weights)
  np.testing.assert_array_equal(flatten_weights(algorithm.checkpointed["critics"]), before)
  assert float(algorithm.checkpointed["critics_adam"].loss_scale) == 2**14

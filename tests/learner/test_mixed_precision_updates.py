"""Mixed precision: the loss scale, Adam with a scaled loss, and algorithms in float16."""

import numpy as np
import pytest
import tensorflow as tf

from learner.optimizer import Optimizer
from networks import flatten_weights
from tests.learner.algorithms.test_actor_critics import NAMES, make, make_run, random_rows, shift
from tests.learner.batches import optimizer_of, part, update


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_overflow_halves_the_loss_scale_down_to_one(bad: float) -> None:
  optimizer = Optimizer([tf.Variable([1.0, 2.0])], 0.1, mixed_precision=True)
  values = [float(optimizer.loss_scale)]
  for _ in range(17):
    optimizer.apply([tf.constant([1.0, bad])])
    values.append(float(optimizer.loss_scale))
  assert values == [*(2.0**power for power in range(15, -1, -1)), 1.0, 1.0]


@pytest.mark.compiled
def test_the_loss_scale_doubles_after_2000_steps_without_an_overflow() -> None:
  optimizer = Optimizer([tf.Variable([1.0, 2.0])], 0.1, mixed_precision=True)
  apply = tf.function(optimizer.apply, autograph=False)
  for _ in range(1_999):
    apply([tf.constant([1.0, 1.0])])
  apply([tf.constant([1.0, np.inf])])
  assert float(optimizer.loss_scale) == 2**14
  for _ in range(1_999):
    apply([tf.constant([1.0, 1.0])])
  assert float(optimizer.loss_scale) == 2**14
  apply([tf.constant([1.0, 1.0])])
  assert float(optimizer.loss_scale) == 2**15


def test_adam_takes_no_step_where_a_gradient_overflowed() -> None:
  variable = tf.Variable([1.0, 2.0])
  adam = Optimizer([variable], 0.1, max_norm=1.0, mixed_precision=True)
  adam.apply([tf.constant([np.inf, 1.0])])
  np.testing.assert_array_equal(variable, [1.0, 2.0])
  assert float(adam.loss_scale) == 2**14
  adam.apply([adam.loss_scale * tf.constant([3.0, -4.0])])
  # The skipped step counts, so this is the second: .1 m / (1 - .9^2) over the root of .001 v / (1 - .999^2).
  length = 0.1 * (0.1 / 0.19) / np.sqrt(0.001 / 0.001999)
  np.testing.assert_allclose(variable, [1.0 - length, 2.0 + length], rtol=1e-5)
  assert float(adam.loss_scale) == 2**14


def test_adam_with_a_scaled_loss_is_adam() -> None:
  plain, mixed = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
  ours, theirs = Optimizer([mixed], 0.1, 0.5, mixed_precision=True), Optimizer([plain], 0.1, 0.5)
  for gradient in ([0.1, -0.2], [3.0, 4.0], [-1e-6, 1e-7]):
    ours.apply([ours.loss_scale * tf.constant(gradient)])
    theirs.apply([theirs.loss_scale * tf.constant(gradient)])
  np.testing.assert_allclose(mixed, plain, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_updates_in_mixed_precision_are_near_those_in_float32(name: str) -> None:
  plain, mixed = make(make_run(name, (16, 16))), make(make_run(name, (16, 16), mixed_precision=True))
  for updates in (plain, mixed):
    shift(updates, "target_critics")
  rng = np.random.default_rng(4)
  for _ in range(4):
    rows = random_rows(rng, batch=8)
    (ours, our_errors), (theirs, their_errors) = (update(updates, rows[None]) for updates in (mixed, plain))
    # float16 has a significand of eleven bits.
    np.testing.assert_allclose(our_errors, their_errors, rtol=2e-2, atol=2e-2)
    for metric, value in theirs.items():
      np.testing.assert_allclose(ours[metric], value, rtol=2e-2, atol=2e-2)
  for variable in (*part(mixed, "policy").variables, *part(mixed, "critics").variables):
    assert variable.dtype == tf.float32
  assert int(optimizer_of(mixed, part(mixed, "critics")).steps) == 4
  assert not np.array_equal(flatten_weights(part(mixed, "policy")), flatten_weights(part(plain, "policy")))


@pytest.mark.parametrize("name", NAMES)
def test_an_overflow_in_float16_changes_no_weights(name: str) -> None:
  updates = make(make_run(name, mixed_precision=True))
  before = flatten_weights(part(updates, "critics"))
  rows = random_rows(np.random.default_rng(0))
  # Gradients are scaled by 2^15, and float16 ends at 65,504.
  weights = np.full((1, len(rows)), 100.0)
  update(updates, rows[None], weights)
  np.testing.assert_array_equal(flatten_weights(part(updates, "critics")), before)
  assert float(optimizer_of(updates, part(updates, "critics")).loss_scale) == 2**14

"""The losses, on arrays worked out by hand and against plain loops."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.algorithms.losses import (
  double_q_learning,
  half_square,
  huber,
  lesser_distribution,
  quantile_huber,
  soft_value,
  td_errors,
)


def _float(*values: object) -> tf.Tensor:
  return tf.constant(values, tf.float32)


def test_the_selector_network_selects_the_action_and_the_value_network_values_it() -> None:
  td_error = double_q_learning(
    q_tm1=_float([1, 2, 3], [4, 5, 6]),
    a_tm1=tf.constant([2, 0]),
    r_t=_float(0.5, -1),
    discount_t=_float(0.5, 0.25),
    q_t_value=_float([10, 20, 30], [40, 80, 60]),
    q_t_selector=_float([5, 9, 7], [3, 2, 1]),
  )
  # .5 + .5 * 20 - 3 and -1 + .25 * 40 - 4; with the actions that the value network prefers, 12.5 and 15.
  np.testing.assert_array_equal(td_error, [7.5, 5.0])


def test_the_huber_loss_is_half_the_square_up_to_1_and_linear_beyond() -> None:
  errors = _float(0, 0.5, -1, 3, -10)
  np.testing.assert_allclose(huber(errors), [0, 0.125, 0.5, 2.5, 9.5])
  np.testing.assert_allclose(half_square(errors), [0, 0.125, 0.5, 4.5, 50])


def test_a_discount_of_zero_leaves_the_reward_alone() -> None:
  td_error = double_q_learning(
    _float([1, 2]), tf.constant([1]), _float(3), _float(0), _float([1e6, 1e6]), _float([1, 0])
  )
  np.testing.assert_array_equal(td_error, [1.0])


def test_the_gradient_passes_through_the_value_of_the_action_taken_and_nothing_else() -> None:
  q_tm1, r_t, discount = _float([1, 2], [3, 4]), _float(1, 1), _float(0.9, 0.9)
  value, selector = _float([5, 6], [7, 8]), _float([1, 0], [0, 1])
  sources = [q_tm1, r_t, discount, value, selector]
  with tf.GradientTape() as tape:
    tape.watch(sources)
    td_error = double_q_learning(q_tm1, tf.constant([0, 1]), r_t, discount, value, selector)
  first, *others = tape.gradient(td_error, sources)
  np.testing.assert_array_equal(first, [[-1, 0], [0, -1]])
  assert others == [None] * 4


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_it_agrees_with_plain_loops(batch: int, actions: int, seed: int) -> None:
  rng = np.random.default_rng(seed)
  q_tm1, value, selector = (rng.normal(size=(batch, actions)).astype(np.float32) for _ in range(3))
  a_tm1 = rng.integers(actions, size=batch).astype(np.int32)
  r_t, discount = (rng.normal(size=batch).astype(np.float32) for _ in range(2))
  expected = [
    r_t[row] + discount[row] * value[row, max(range(actions), key=lambda a: selector[row, a])] - q_tm1[row, a_tm1[row]]
    for row in range(batch)
  ]
  actual = double_q_learning(*(tf.constant(array) for array in (q_tm1, a_tm1, r_t, discount, value, selector)))
  assert actual.shape == (batch,)
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_a_soft_value_is_the_lesser_critics_less_the_actions_log_density() -> None:
  value = soft_value(_float([1, 5], [2, 3]), _float(0.5, -2), tf.constant(0.1))
  np.testing.assert_allclose(value, [1 - 0.05, 3 + 0.2], rtol=1e-6)


def test_every_critic_has_its_error_against_the_one_target() -> None:
  errors = td_errors(_float([1, 2], [3, 4]), _float(0.5, 1), _float(0.9, 0), _float(10, 1e6))
  np.testing.assert_allclose(errors, [[8.5, -1], [6.5, -3]], rtol=1e-6)


def test_no_gradient_passes_through_a_target() -> None:
  values, rewards, discounts, next_values = _float([1, 2]), _float(1, 1), _float(0.9, 0.9), _float(3, 4)
  sources = [values, rewards, discounts, next_values]
  with tf.GradientTape() as tape:
    tape.watch(sources)
    total = tf.reduce_sum(td_errors(*sources))
  of_values, *others = tape.gradient(total, sources)
  np.testing.assert_array_equal(of_values, [[-1, -1]])
  assert others == [None, None, None]


def test_the_lesser_distribution_is_that_of_the_lower_mean_row_by_row() -> None:
  quantiles = _float([[0, 1, 9], [0, 0, 1]], [[2, 3, 4], [5, 6, 7]])
  # The first critic's means are 3.3 and .3, the second's 3 and 6.
  np.testing.assert_array_equal(lesser_distribution(quantiles), [[2, 3, 4], [0, 0, 1]])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4), st.sampled_from([0.3, 1.0, 2.5]))
def test_the_quantile_huber_loss_is_that_of_plain_loops(seed: int, count: int, samples: int, kappa: float) -> None:
  rng = np.random.default_rng(seed)
  quantiles = rng.normal(scale=2, size=(2, 3, count)).astype(np.float32)
  targets = rng.normal(scale=2, size=(3, samples)).astype(np.float32)
  expected = np.zeros((2, 3))
  for critic in range(2):
    for row in range(3):
      for i in range(count):
        tau = (2 * i + 1) / (2 * count)
        for j in range(samples):
          u = float(targets[row, j]) - float(quantiles[critic, row, i])
          huber = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
          expected[critic, row] += abs(tau - (u < 0)) * huber / kappa / samples
  np.testing.assert_allclose(quantile_huber(quantiles, targets, kappa), expected, rtol=1e-4, atol=1e-5)


def test_the_quantile_huber_loss_finds_the_quantiles_of_its_samples() -> None:
  samples = np.random.default_rng(0).exponential(size=4_000).astype(np.float32)
  quantiles = tf.Variable(tf.zeros((1, 4)))
  optimizer = tf.keras.optimizers.SGD(1.0)
  for _ in range(400):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(quantile_huber(quantiles, samples[None], kappa=1e-3)) / 4
    optimizer.apply_gradients([(tape.gradient(loss, quantiles), quantiles)])
  np.testing.assert_allclose(quantiles[0], np.quantile(samples, [0.125, 0.375, 0.625, 0.875]), atol=0.05)

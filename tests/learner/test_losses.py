"""The loss of double Q-learning."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.losses import double_q_learning


def _float(*values: object) -> tf.Tensor:
  return tf.constant(values, tf.float32)


def test_the_selector_chooses_the_action_and_the_value_network_says_what_it_is_worth() -> None:
  td_error = double_q_learning(
    q_tm1=_float([1, 2, 3], [4, 5, 6]),
    a_tm1=tf.constant([2, 0]),
    r_t=_float(0.5, -1),
    discount_t=_float(0.5, 0.25),
    q_t_value=_float([10, 20, 30], [40, 80, 60]),
    q_t_selector=_float([5, 9, 7], [3, 2, 1]),
  )
  # .5 + .5 * 20 - 3 and -1 + .25 * 40 - 4; with the value network's own choice they would be 12.5 and 15.
  np.testing.assert_array_equal(td_error, [7.5, 5.0])


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

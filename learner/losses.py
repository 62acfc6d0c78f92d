"""Losses: pure functions of arrays."""

import tensorflow as tf


def double_q_learning(
  q_tm1: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_t_value: tf.Tensor,
  q_t_selector: tf.Tensor,
) -> tf.Tensor:
  """The temporal-difference error of double Q-learning (van Hasselt et al., 2016, Section 3, "Double DQN").

  Args:
    q_tm1: float32 [B, A], online values of the first observation.
    a_tm1: integer [B], the action taken.
    r_t: float32 [B], reward, over n steps where the row has n.
    discount_t: float32 [B], what the value after them counts; 0 where the episode terminated.
    q_t_value: float32 [B, A], target network's values of the last observation.
    q_t_selector: float32 [B, A], online values of it, which choose the action.

  Returns:
    float32 [B], target minus value; no gradient passes through the target.
  """
  a_t = tf.argmax(q_t_selector, axis=-1)
  target = tf.stop_gradient(r_t + discount_t * tf.gather(q_t_value, a_t, batch_dims=1))
  return target - tf.gather(q_tm1, a_tm1, batch_dims=1)

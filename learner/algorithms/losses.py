"""Losses: pure functions of arrays."""

from collections.abc import Sequence

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
    q_tm1: float32 [B, A], the online network's values of the first observation.
    a_tm1: integer [B], the action taken.
    r_t: float32 [B], the row's n-step reward.
    discount_t: float32 [B], discount of the value after these steps; 0 where the episode terminated.
    q_t_value: float32 [B, A], the target network's values of the last observation.
    q_t_selector: float32 [B, A], the online network's values of it, which select the action.

  Returns:
    float32 [B], target minus value; no gradient passes through the target.
  """
  a_t = tf.argmax(q_t_selector, axis=-1)
  target = tf.stop_gradient(r_t + discount_t * tf.gather(q_t_value, a_t, batch_dims=1))
  return target - tf.gather(q_tm1, a_tm1, batch_dims=1)


def half_square(errors: tf.Tensor) -> tf.Tensor:
  """Half of each error's square, float32 of the errors' shape."""
  return 0.5 * tf.square(errors)


def huber(errors: tf.Tensor) -> tf.Tensor:
  """Half of each error's square up to 1, and |error| - 1/2 beyond (Huber, 1964), float32 of the errors' shape."""
  sizes = tf.abs(errors)
  inner = tf.minimum(sizes, 1.0)
  return inner * (sizes - 0.5 * inner)


def soft_value(q_t: tf.Tensor, log_prob_t: tf.Tensor, temperature: tf.Tensor) -> tf.Tensor:
  """The soft value of a state, from one action of the policy and the lesser critic (Haarnoja et al., 2018, Eq. 3).

  Args:
    q_t: float32 [critics, B], the critics' values of an action sampled from the policy.
    log_prob_t: float32 [B], its log-density.
    temperature: float32 (), alpha.

  Returns:
    float32 [B].
  """
  return tf.reduce_min(q_t, axis=0) - temperature * log_prob_t


def td_errors(q_tm1: tf.Tensor, r_t: tf.Tensor, discount_t: tf.Tensor, v_t: tf.Tensor) -> tf.Tensor:
  """Every critic's temporal-difference error against one target.

  Args:
    q_tm1: float32 [critics, B], of the action taken; [B] of one critic.
    r_t: float32 [B], the row's n-step reward.
    discount_t: float32 [B], discount of the value after these steps; 0 where the episode terminated.
    v_t: float32 [B], value of the last observation.

  Returns:
    float32 of q_tm1's shape, target minus value; no gradient passes through the target.
  """
  return tf.stop_gradient(r_t + discount_t * v_t) - q_tm1


def quadratic_values(values: tf.Tensor, means: tf.Tensor, lowers: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
  """NAF's Q(s, a) = V(s) - [a - m(s)]' L(s) L(s)' [a - m(s)] (Gu et al., 2016; ReF-ER, Eq. 4, which has no factor 1/2).

  Args:
    values: float32 [B], V.
    means: float32 [B, A], m.
    lowers: float32 [B, A, A], L, lower-triangular.
    actions: float32 [B, A], a.

  Returns:
    float32 [B], at most V.
  """
  away = tf.linalg.matvec(lowers, actions - means, transpose_a=True)
  return values - tf.reduce_sum(tf.square(away), axis=-1)


def lesser_distribution(quantiles: tf.Tensor) -> tf.Tensor:
  """For each row, the quantiles of the critic with the lesser mean, as in QR-SAC (Wurman et al., 2022, Methods).

  Args:
    quantiles: float32 [critics, B, N].

  Returns:
    float32 [B, N].
  """
  chosen = tf.argmin(tf.reduce_mean(quantiles, axis=-1), axis=0)
  return tf.gather(tf.transpose(quantiles, (1, 0, 2)), chosen, batch_dims=1)


def quantile_huber(quantiles: tf.Tensor, targets: tf.Tensor, kappa: float) -> tf.Tensor:
  """The quantile Huber loss (Dabney et al., 2018, Eq. 10), summed over quantiles and averaged over the target's samples.

  rho(u) = |tau_i - 1[u < 0]| L_kappa(u) / kappa with u = target_j - quantile_i, tau_i = (2 i + 1) / (2 N), and L_kappa the
  Huber loss: u^2 / 2 up to kappa, kappa (|u| - kappa / 2) beyond.

  Args:
    quantiles: float32 [..., B, N], in the order of tau.
    targets: float32 [B, M]; no gradient passes through them.
    kappa: where the Huber loss turns linear.

  Returns:
    float32 [..., B].
  """
  count = quantiles.shape[-1]
  taus = (tf.range(count, dtype=tf.float32) + 0.5) / count
  # [..., B, N, M]
  errors = tf.stop_gradient(targets)[..., None, :] - quantiles[..., None]
  sizes = tf.abs(errors)
  inner = tf.minimum(sizes, kappa)
  huber = inner * (sizes - 0.5 * inner)
  sides = tf.abs(taus[:, None] - tf.cast(errors < 0, tf.float32))
  return tf.reduce_sum(tf.reduce_mean(sides * huber, axis=-1), axis=-1) / kappa


def l2(variables: Sequence[tf.Variable], weight: float) -> tf.Tensor:
  """`weight` times the sum of squares of all variables but vectors, which one network's biases are, float32 ()."""
  if not weight:
    return tf.zeros(())
  return weight * tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in variables if variable.shape.rank > 1])

"""Advantages in closed form for V-RACER: of an action, with the expectation 0 under the policy (ReF-ER, Appendix E).

A(s, a) = f(s, a) - E f, where E f is the expectation of f(s, a') for a' ~ pi, and f is largest at the policy's mean. Expectations
are those of whole Gaussians: that actions are drawn within three deviations changes them by some hundredths.
"""

import tensorflow as tf

from networks import lower_triangles


def quadratic(
  coefficients: tf.Tensor, actions: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """f = -1/2 (a - m)' L L' (a - m) (Eq. 18).

  E f = -1/2 Tr(L L' Sigma). Eq. 19 leaves out the factor -1/2 of Eq. 18.

  Args:
    coefficients: float32 [B, A (A + 1) / 2], the triangle of L, row by row; its diagonal is their softplus.
    actions: float32 [B, A].
    mean: float32 [B, A], of pi.
    deviation: float32 [A], of pi.

  Returns:
    (f, E f), float32 [B] each.
  """
  lower = lower_triangles(coefficients, mean.shape[-1])
  away = tf.linalg.matvec(lower, actions - mean, transpose_a=True)
  spread = tf.reduce_sum(tf.square(lower * deviation[:, None]), axis=(-2, -1))
  return -0.5 * tf.reduce_sum(tf.square(away), axis=-1), -0.5 * spread


def gaussian(
  coefficients: tf.Tensor, actions: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """f = K exp(-1/2 (a+)' L+^-1 a+ - 1/2 (a-)' L-^-1 a-), with a+ = max(a - m, 0) and a- = min(a - m, 0) (Eq. 20).

  E f = K prod_i 1/2 (sqrt(L+_i / (L+_i + Sigma_i)) + sqrt(L-_i / (L-_i + Sigma_i))) (Eq. 22).

  Args:
    coefficients: float32 [B, 1 + 2 A], whose softplus is K and the diagonals of L+ and L-.
    actions: float32 [B, A].
    mean: float32 [B, A], of pi.
    deviation: float32 [A], of pi.

  Returns:
    (f, E f), float32 [B] each.
  """
  size = mean.shape[-1]
  height, above, below = tf.split(tf.nn.softplus(coefficients), (1, size, size), axis=-1)
  away = actions - mean
  widths = tf.where(away > 0, above, below)
  shape = tf.exp(-0.5 * tf.reduce_sum(tf.square(away) / widths, axis=-1))
  variance = tf.square(deviation)
  halves = 0.5 * (tf.sqrt(above / (above + variance)) + tf.sqrt(below / (below + variance)))
  return height[:, 0] * shape, height[:, 0] * tf.reduce_prod(halves, axis=-1)


# `learner.algorithm.advantage` -> (f, E f).
ADVANTAGES = {"quadratic": quadratic, "gaussian": gaussian}

"""Conflict-averse gradient descent over the tables' losses (CAGrad; Liu et al., 2021; SSET, Section 5.7)."""

import tensorflow as tf

_GAP = 1e-6
_MAX_ITERATIONS = 100


def conflict_averse(gradients: tf.Tensor, shares: tf.Tensor, coefficient: tf.Tensor) -> tf.Tensor:
  """The direction near the average gradient that does best by the table it serves worst.

  d = g_0 + sqrt(phi) / |g_w| g_w with phi = c^2 |g_0|^2 and w = argmin over the simplex of g_w . g_0 + sqrt(phi) |g_w|
  (Liu et al., 2021, Algorithm 1), where g_0 = sum_i shares_i g_i is the whole batch's gradient, so that c = 0 is plain SSET.

  Args:
    gradients: float32 [tables, P], each of the mean loss of one table's rows.
    shares: float32 [tables], of the batch's rows; a table without any takes no part.
    coefficient: float32 (), c in [0, 1).

  Returns:
    float32 [P].
  """
  # The least of a sum of nearly equal terms is looked for, on a few numbers: here the precision costs nothing.
  gram = tf.cast(tf.matmul(gradients, gradients, transpose_b=True), tf.float64)
  shares64 = tf.cast(shares, tf.float64)
  products = tf.linalg.matvec(gram, shares64)
  average_norm = tf.sqrt(tf.maximum(tf.tensordot(shares64, products, 1), 0.0))
  radius = tf.cast(coefficient, tf.float64) * average_norm
  weights = least_conflict(gram, products, radius, shares > 0)
  norm = tf.sqrt(tf.maximum(tf.tensordot(weights, tf.linalg.matvec(gram, weights), 1), 0.0))
  # Where g_w is zero the gradients oppose each other wholly, and no direction serves all.
  mixed = shares64 + tf.math.divide_no_nan(radius, norm) * weights
  return tf.linalg.matvec(gradients, tf.cast(mixed, tf.float32), transpose_a=True)


def least_conflict(gram: tf.Tensor, products: tf.Tensor, radius: tf.Tensor, active: tf.Tensor) -> tf.Tensor:
  """w = argmin over the simplex of w . products + radius sqrt(w' gram w).

  Moves weight from the coordinate with the steepest to that with the least steep derivative, each time as far as is best,
  which has a closed form; with three tables it is done after about ten moves.

  Args:
    gram: float64 [tables, tables], g_i . g_j.
    products: float64 [tables], g_i . g_0.
    radius: float64 (), sqrt(phi).
    active: bool [tables], those that may have weight; at least one.

  Returns:
    float64 [tables], not negative, summing to 1.
  """
  infinity = tf.constant(float("inf"), tf.float64)
  tiny = tf.constant(1e-300, tf.float64)
  scale = tf.reduce_max(tf.linalg.diag_part(gram))

  def slopes(weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    against = tf.linalg.matvec(gram, weights)
    square = tf.maximum(tf.tensordot(weights, against, 1), tiny)
    slope = products + radius * against / tf.sqrt(square)
    to = tf.argmin(tf.where(active, slope, infinity))
    from_ = tf.argmax(tf.where(weights > 0, slope, -infinity))
    return slope, against, square, to, from_

  def goes_on(iteration: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    slope, _, _, to, from_ = slopes(weights)
    return (iteration < _MAX_ITERATIONS) & (slope[from_] - slope[to] > _GAP * scale)

  def move(iteration: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    _, against, square, to, from_ = slopes(weights)
    # Along e_to - e_from the objective is linear t + radius sqrt(curve t^2 + 2 turn t + square), up to a constant.
    linear = products[to] - products[from_]
    curve = tf.maximum(gram[to, to] - 2.0 * gram[to, from_] + gram[from_, from_], tiny)
    turn = against[to] - against[from_]
    # With u = curve t + turn its derivative is zero where u / sqrt(u^2 / curve + rest) = -linear / radius.
    rest = tf.maximum(square - turn**2 / curve, 0.0)
    ratio = -linear / tf.maximum(radius, tiny)
    room = 1.0 - ratio**2 / curve
    best = (tf.sign(ratio) * tf.sqrt(ratio**2 * rest / tf.maximum(room, tiny)) - turn) / curve
    step = tf.where(room > 0, best, infinity)  # It falls all the way: the slope at 0 points that way.
    step = tf.clip_by_value(step, 0.0, weights[from_])
    onto, off = tf.unstack(tf.one_hot([to, from_], tf.size(weights), dtype=tf.float64))
    # What is taken away whole is gone, whatever rounding leaves.
    return iteration + 1, tf.maximum(weights + step * (onto - off), 0.0)

  start = tf.cast(active, tf.float64)
  start /= tf.reduce_sum(start)
  _, weights = tf.while_loop(goes_on, move, (tf.constant(0), start), parallel_iterations=1)
  return weights

"""Conflict-averse gradient descent over the tables' losses (CAGrad; Liu et al., 2021; SSET, Section 5.7)."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from configs import LearnerConfig, RunConfig
from learner.devices import may_compile
from learner.gradients.rule import Batch, GradientRule, Loss, LossFunction
from learner.optimizer import Optimizer
from networks import Trace

_GAP = 1e-6
_MAX_ITERATIONS = 100
_COEFFICIENT = "cagrad_coefficient"


class CagradRule(GradientRule):
  """Steps along the direction near the average gradient that most improves the loss of the worst-served table.

  It applies to critics and policies alike, as in the authors' multi-task SAC.
  """

  def __init__(self, config: RunConfig):
    """Takes the schedule of c and the number of tables."""
    super().__init__(config)
    self._config = config.learner.cagrad
    self._tables = len(config.replay.all_tables)
    # If TensorFlow started the many tiny operations of each move one by one, they would take two fifths of an update or more.
    self._compiled = tf.function(conflict_averse, autograph=False, jit_compile=True)

  @classmethod
  def is_asked_for(cls, config: LearnerConfig) -> bool:
    """Whether c is ever above 0."""
    return config.cagrad.in_use

  def controls(self, updates: int) -> Mapping[str, float]:
    """The coefficient c after `updates` gradient steps."""
    return {_COEFFICIENT: self._config.coefficient_at(updates)}

  def minimise(
    self,
    optimizer: Optimizer,
    loss: LossFunction,
    batch: Batch,
    penalty: Callable[[], tf.Tensor] | None = None,
  ) -> Loss:
    """Takes one step; see `GradientRule.minimise`."""
    trace: Trace = []
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
      tape.watch(optimizer.parameters)
      result = loss(trace)
      parameter_loss = None if penalty is None else penalty()
    slopes = tape.gradient(result.rows, [outputs for _, outputs in trace])
    solve = self._compiled if may_compile(optimizer.parameters[0]) else conflict_averse
    weights = self._row_weights(row_products(trace, slopes), batch, solve)
    gradients = tape.gradient(result.rows, optimizer.parameters, output_gradients=weights)
    if parameter_loss is not None:
      extra = tape.gradient(parameter_loss, optimizer.parameters, unconnected_gradients="zero")
      gradients = [gradient + added for gradient, added in zip(gradients, extra, strict=True)]
    optimizer.apply(gradients)
    return result

  def _row_weights(self, products: tf.Tensor, batch: Batch, solve: Callable[..., tf.Tensor]) -> tf.Tensor:
    """The coefficient of each row's gradient in the direction, float32 [batch].

    Args:
      products: float32 [batch, batch], from `row_products`.
      batch: the rows.
      solve: `conflict_averse`, or the same compiled.
    """
    # [batch, tables]: which table a row belongs to, and its part in the mean over that table's rows.
    members = tf.one_hot(batch.tables, self._tables, dtype=tf.float64)
    counts = tf.reduce_sum(members, axis=0)
    means = tf.math.divide_no_nan(members, counts)
    gram = tf.matmul(means, tf.matmul(tf.cast(products, tf.float64), means), transpose_a=True)
    coefficient = tf.cast(batch.controls[_COEFFICIENT], tf.float64)
    mixture = solve(gram, counts / tf.reduce_sum(counts), coefficient)
    return tf.cast(tf.linalg.matvec(means, mixture), tf.float32)


def conflict_averse(gram: tf.Tensor, shares: tf.Tensor, coefficient: tf.Tensor) -> tf.Tensor:
  """The direction near the average gradient that most improves the loss of the worst-served table.

  d = g_0 + sqrt(phi) / |g_w| g_w with phi = c^2 |g_0|^2 and w = argmin over the simplex of g_w . g_0 + sqrt(phi) |g_w|
  (Liu et al., 2021, Algorithm 1), where g_0 = sum_i shares_i g_i is the whole batch's gradient, so that c = 0 is plain SSET.

  Args:
    gram: float64 [tables, tables], g_i . g_j, where g_i is the gradient of the mean loss of table i's rows. In float64, as the
      minimum is sought among sums of nearly equal terms; on so few numbers it costs nothing.
    shares: float64 [tables], each table's share of the batch. A table without rows, or whose loss has no gradient, takes no
      part.
    coefficient: float64 (), c in [0, 1).

  Returns:
    float64 [tables], the coefficient of each g_i in d.
  """
  products = tf.linalg.matvec(gram, shares)
  average_norm = tf.sqrt(tf.maximum(tf.tensordot(shares, products, 1), 0.0))
  radius = coefficient * average_norm
  # No direction changes a loss without a gradient. With its table in the mixture, g_w could be 0 and not tell the others apart.
  active = (shares > 0) & (tf.linalg.diag_part(gram) > 0)
  weights = least_conflict(gram, products, radius, active)
  norm = tf.sqrt(tf.maximum(tf.tensordot(weights, tf.linalg.matvec(gram, weights), 1), 0.0))
  # Where g_w is zero the gradients cancel each other out, and no direction improves all losses.
  return shares + tf.math.divide_no_nan(radius, norm) * weights


def row_products(trace: Trace, slopes: Sequence[tf.Tensor]) -> tf.Tensor:
  """The inner products of all pairs of rows' gradients, from one backward pass.

  A row's gradient in a linear layer y = x W + b is (x' d, d), where d is the slope of its loss in y. The product of two rows is
  (x_i . x_j + 1) (d_i . d_j), summed over the layers. The gradients themselves, each as large as the network, are never computed.

  Args:
    trace: (inputs [..., B, n], outputs [..., B, m]) of every linear layer.
    slopes: the slopes of each row's loss in a layer's outputs, [..., B, m] for every layer.

  Returns:
    float32 [B, B].
  """
  products = []
  for (inputs, _), slope in zip(trace, slopes, strict=True):
    layer = (_gram(inputs) + 1.0) * _gram(slope)
    products.append(tf.reduce_sum(layer, axis=list(range(layer.shape.rank - 2))))
  return tf.add_n(products)


def _gram(rows: tf.Tensor) -> tf.Tensor:
  return tf.matmul(rows, rows, transpose_b=True)


def least_conflict(gram: tf.Tensor, products: tf.Tensor, radius: tf.Tensor, active: tf.Tensor) -> tf.Tensor:
  """w = argmin over the simplex of w . products + radius sqrt(w' gram w).

  Each move takes weight from the coordinate with the largest derivative to the one with the smallest; the best amount has a
  closed form. Three tables take about ten moves.

  Args:
    gram: float64 [tables, tables], g_i . g_j.
    products: float64 [tables], g_i . g_0.
    radius: float64 (), sqrt(phi).
    active: bool [tables], the tables that may have weight.

  Returns:
    float64 [tables], non-negative, summing to 1; zeros if no table is active.
  """
  infinity = tf.constant(float("inf"), tf.float64)
  tiny = tf.constant(1e-300, tf.float64)
  scale = tf.reduce_max(tf.linalg.diag_part(gram))

  def look(weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The weights, the terms that the next move needs, and the gap between the largest and the smallest slope.

    The move is along e_to - e_from, a product with which gives the difference of two entries. With slices at the two indices, XLA
    would compile every update anew.
    """
    against = tf.linalg.matvec(gram, weights)
    square = tf.maximum(tf.tensordot(weights, against, 1), tiny)
    slope = products + radius * against / tf.sqrt(square)
    to = tf.argmin(tf.where(active, slope, infinity))
    from_ = tf.argmax(tf.where(weights > 0, slope, -infinity))
    onto, off = tf.unstack(tf.one_hot([to, from_], tf.size(weights), dtype=tf.float64))
    return weights, against, square, onto - off, tf.tensordot(off, weights, 1), tf.tensordot(off - onto, slope, 1)

  def is_improvable(iteration: tf.Tensor, *state: tf.Tensor) -> tf.Tensor:
    return (iteration < _MAX_ITERATIONS) & (state[-1] > _GAP * scale)

  def move(iteration: tf.Tensor, *state: tf.Tensor) -> tuple[tf.Tensor, ...]:
    weights, against, square, way, most, _ = state
    # Along the way the objective is, up to a constant, linear t + radius sqrt(curve t^2 + 2 turn t + square).
    linear = tf.tensordot(way, products, 1)
    curve = tf.maximum(tf.tensordot(way, tf.linalg.matvec(gram, way), 1), tiny)
    turn = tf.tensordot(way, against, 1)
    # With u = curve t + turn, its derivative is zero where u / sqrt(u^2 / curve + rest) = -linear / radius.
    rest = tf.maximum(square - turn**2 / curve, 0.0)
    ratio = -linear / tf.maximum(radius, tiny)
    room = 1.0 - ratio**2 / curve
    best = (tf.sign(ratio) * tf.sqrt(ratio**2 * rest / tf.maximum(room, tiny)) - turn) / curve
    step = tf.where(room > 0, best, infinity)  # Without a minimum it falls all the way, as it does at 0.
    # Rounding must not make a weight negative.
    return iteration + 1, *look(tf.maximum(weights + tf.clip_by_value(step, 0.0, most) * way, 0.0))

  start = tf.cast(active, tf.float64)
  start = tf.math.divide_no_nan(start, tf.reduce_sum(start))
  _, weights, *_ = tf.while_loop(is_improvable, move, (tf.constant(0), *look(start)), parallel_iterations=1)
  return weights

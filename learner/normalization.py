"""Running moments of observations."""

import tensorflow as tf

from networks import Normalization

# Limits how far a feature that hardly varies is scaled up.
_MIN_STD = 1e-3


class RunningMoments(tf.Module):
  """Tracks the mean and variance of all encoded observations seen, and sets a normalisation from them.

  Blocks are merged by their sums of squares about the mean (Chan et al., 1983, Eqs. 1.3 and 2.1): plain sums of squares would
  lose digits.
  """

  def __init__(self, normalization: Normalization):
    """Takes the normalisation to set; keeps the moments in float64."""
    super().__init__()
    shape = normalization.shift.shape
    self._normalization = normalization
    self._count = tf.Variable(0.0, dtype=tf.float64)
    self._mean = tf.Variable(tf.zeros(shape, tf.float64))
    self._squares = tf.Variable(tf.zeros(shape, tf.float64))

  def update(self, observations: tf.Tensor) -> None:
    """Adds encoded observations, float32 [B, inputs]; an empty batch changes nothing."""
    flat = tf.cast(observations, tf.float64)
    count = tf.cast(tf.shape(flat)[0], tf.float64)
    mean = tf.math.divide_no_nan(tf.reduce_sum(flat, axis=0), count)
    squares = tf.reduce_sum(tf.square(flat - mean), axis=0)
    total = self._count + count
    delta = mean - self._mean
    weight = tf.math.divide_no_nan(count, total)
    self._squares.assign_add(squares + tf.square(delta) * self._count * weight)
    self._mean.assign_add(delta * weight)
    self._count.assign(total)
    std = tf.sqrt(tf.math.divide_no_nan(self._squares, total))
    self._normalization.shift.assign(tf.cast(self._mean, tf.float32))
    self._normalization.scale.assign(tf.cast(1.0 / tf.maximum(std, _MIN_STD), tf.float32))

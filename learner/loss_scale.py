"""The loss scale of mixed precision."""

from collections.abc import Sequence

import tensorflow as tf

# As TensorFlow's own has them: the first scale, and the steps without an overflow after which it doubles.
_FIRST = 2.0**15
_STEPS_UNTIL_DOUBLED = 2_000


class LossScale(tf.Module):
  """A factor of the loss that lifts its gradients to where float16 can tell them from 0 (Micikevicius et al., 2018, Section 3.2).

  It is halved when a gradient overflows, and doubled after 2,000 steps without that.

  Attributes:
    value: the factor, float32 ().
  """

  def __init__(self) -> None:
    """Makes the variables."""
    super().__init__("loss_scale")
    self.value = tf.Variable(_FIRST, trainable=False, name="value")
    self._steps = tf.Variable(0, trainable=False, name="steps_without_overflow")

  def take_off(self, gradients: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Of the gradients of a scaled loss: those of the loss, and whether all of them are finite, bool ().

    The scale follows at once: for the next loss.
    """
    value = self.value.read_value()
    unscaled = [gradient / value for gradient in gradients]
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in unscaled])
    steps = tf.where(is_finite, self._steps + 1, 0)
    doubles = steps >= _STEPS_UNTIL_DOUBLED
    self._steps.assign(tf.where(doubles, 0, steps))
    self.value.assign(tf.where(is_finite, tf.where(doubles, 2.0 * value, value), tf.maximum(0.5 * value, 1.0)))
    return unscaled, is_finite

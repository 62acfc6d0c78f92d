"""Adam for the parameters of one network, with gradient clipping and a loss scale."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_EPSILON = 1e-8


class _Adam(tf.keras.optimizers.Adam):
  """Keras' Adam, but with epsilon added after the second moment's bias correction, as in Kingma & Ba (2015), Algorithm 1.

  Keras adds it before the correction, which changes the size of the steps for gradients below about 1e-6.
  """

  def _prepare_local(self, var_device: str, var_dtype: tf.DType, apply_state: dict[Any, dict[str, tf.Tensor]]) -> None:
    super()._prepare_local(var_device, var_dtype, apply_state)
    coefficients = apply_state[(var_device, var_dtype)]
    coefficients["epsilon"] *= tf.sqrt(1.0 - coefficients["beta_2_power"])


class Optimizer(tf.Module):
  """Adam, with one op for each variable.

  With mixed precision, gradients pass through float16, where small ones become 0. So the loss is scaled up before its gradient
  is taken (Micikevicius et al., 2018, Section 3.2). The scale starts at 2^15. When a gradient overflows, the scale is halved and
  the step is skipped, though counted; after 2,000 steps in a row without an overflow, the scale is doubled.

  Attributes:
    parameters: the variables to optimise.
  """

  def __init__(
    self,
    parameters: Sequence[tf.Variable],
    learning_rate: float,
    max_norm: float | None = None,
    mixed_precision: bool = False,
  ):
    """Creates the moments.

    Args:
      parameters: the variables to optimise.
      learning_rate: of all parameters.
      max_norm: largest norm of the gradient of all parameters together; a longer one is clipped. None for no limit.
      mixed_precision: whether gradients pass through float16, so that the loss must be scaled.
    """
    super().__init__("optimizer")
    self.parameters = parameters
    self._max_norm = max_norm
    adam = _Adam(learning_rate, epsilon=_EPSILON)
    # Keras creates the moments at the first step, but a checkpoint may be restored before it. A step with zero gradients creates
    # them and changes nothing else.
    adam.apply_gradients([(tf.zeros_like(parameter), parameter) for parameter in parameters])
    adam.iterations.assign(0)
    self._learning_rate = learning_rate
    self._adam = tf.keras.mixed_precision.LossScaleOptimizer(adam) if mixed_precision else adam
    self._is_scaled = mixed_precision

  @property
  def loss_scale(self) -> tf.Tensor:
    """The factor by which to multiply the loss before its gradient is taken, float32 (): 1 without mixed precision."""
    return self._adam.loss_scale if self._is_scaled else tf.ones(())

  @property
  def steps(self) -> tf.Variable:
    """Steps taken, including skipped ones, int64 ()."""
    return self._adam.iterations

  @property
  def state(self) -> list[tf.Variable]:
    """The moments and counters. `variables` lacks them, because Keras' optimisers are no `tf.Module`s."""
    return list(self._adam.variables())

  @property
  def learning_rate(self) -> tf.Tensor:
    """The rate of the next step, float32 ()."""
    return self._adam.learning_rate

  def scale_rate(self, scale: tf.Tensor) -> None:
    """Multiplies the learning rate that the optimizer was made with, float32 ()."""
    self._adam.learning_rate.assign(self._learning_rate * scale)

  def apply(self, gradients: Sequence[tf.Tensor]) -> None:
    """Takes a step down `gradients` of the scaled loss, one for each parameter; skips it if float16 overflowed."""
    if self._is_scaled:
      gradients = self._adam.get_unscaled_gradients(gradients)
    if self._max_norm is not None:
      gradients, _ = tf.clip_by_global_norm(gradients, self._max_norm)
    self._adam.apply_gradients(list(zip(gradients, self.parameters, strict=True)))

"""Adam for the parameters of one network, with gradient clipping and a loss scale."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_EPSILON = 1e-8


class _Adam(tf.keras.optimizers.Adam):
  """Keras' Adam with epsilon where Kingma & Ba (2015), Algorithm 1, have it: added after the correction of the second moment.

  Keras' own is added before, which for gradients below some 1e-6 takes steps of another size.
  """

  def _prepare_local(self, var_device: str, var_dtype: tf.DType, apply_state: dict[Any, dict[str, tf.Tensor]]) -> None:
    super()._prepare_local(var_device, var_dtype, apply_state)
    coefficients = apply_state[(var_device, var_dtype)]
    coefficients["epsilon"] *= tf.sqrt(1.0 - coefficients["beta_2_power"])


class Optimizer(tf.Module):
  """Adam in one op a variable.

  With mixed precision gradients come through float16, so the loss is scaled up before its gradient is taken, to where float16 can
  tell its gradients from 0 (Micikevicius et al., 2018, Section 3.2). The scale starts at 2^15. When a gradient overflows it is
  halved and the step is left out, though counted; after 2,000 steps without that it is doubled.

  Attributes:
    parameters: the variables that are optimised.
  """

  def __init__(
    self,
    parameters: Sequence[tf.Variable],
    learning_rate: float,
    max_norm: float | None = None,
    mixed_precision: bool = False,
  ):
    """Makes the moments.

    Args:
      parameters: the variables to optimise.
      learning_rate: of all of them.
      max_norm: length that the gradient of all of them together is cut to; None for no limit.
      mixed_precision: whether gradients come through float16, and therefore are of a scaled loss.
    """
    super().__init__("optimizer")
    self.parameters = parameters
    self._max_norm = max_norm
    adam = _Adam(learning_rate, epsilon=_EPSILON)
    # Keras makes its moments at the first step, and a checkpoint that is restored before that needs them: a step without a
    # gradient makes them and changes nothing else.
    adam.apply_gradients([(tf.zeros_like(parameter), parameter) for parameter in parameters])
    adam.iterations.assign(0)
    self._adam = tf.keras.mixed_precision.LossScaleOptimizer(adam) if mixed_precision else adam
    self._is_scaled = mixed_precision

  @property
  def loss_scale(self) -> tf.Tensor:
    """What the loss is to be multiplied by before its gradient is taken, float32 (): 1 without mixed precision."""
    return self._adam.loss_scale if self._is_scaled else tf.ones(())

  @property
  def steps(self) -> tf.Variable:
    """Steps taken, int64 ()."""
    return self._adam.iterations

  @property
  def state(self) -> list[tf.Variable]:
    """The moments and counters, which `variables` leaves out, as Keras' optimisers are no modules."""
    return list(self._adam.variables())

  @tf.autograph.experimental.do_not_convert
  def apply(self, gradients: Sequence[tf.Tensor]) -> None:
    """Takes a step against `gradients` of the scaled loss, one a parameter; none where float16 overflowed."""
    if self._is_scaled:
      gradients = self._adam.get_unscaled_gradients(gradients)
    if self._max_norm is not None:
      gradients, _ = tf.clip_by_global_norm(gradients, self._max_norm)
    self._adam.apply_gradients(list(zip(gradients, self.parameters, strict=True)))

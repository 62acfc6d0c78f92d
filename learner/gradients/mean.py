"""The default gradient rule: the mean over the batch."""

from collections.abc import Callable

import tensorflow as tf

from configs import LearnerConfig
from learner.gradients.rule import Batch, GradientRule, Loss, LossFunction
from learner.optimizer import Optimizer


class MeanRule(GradientRule):
  """Steps down the gradient of the rows' mean loss."""

  @classmethod
  def is_asked_for(cls, config: LearnerConfig) -> bool:
    """Always: it is the rule of a config that asks for no other."""
    del config
    return True

  def minimise(
    self,
    optimizer: Optimizer,
    loss: LossFunction,
    batch: Batch,
    penalty: Callable[[], tf.Tensor] | None = None,
  ) -> Loss:
    """Takes one step; see `GradientRule.minimise`."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(optimizer.parameters)
      result = loss(None)
      objective = tf.reduce_mean(result.rows)
      if penalty is not None:
        objective += penalty()
    optimizer.apply(tape.gradient(objective, optimizer.parameters, output_gradients=optimizer.loss_scale))
    return result

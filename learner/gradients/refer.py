"""ReF-ER's rules: far-policy steps give no gradient, and a penalty holds the policy near its past behaviours."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from configs import LearnerConfig, RunConfig
from learner.gradients.controls import BETA, LARGEST_RATIO
from learner.gradients.rule import Batch, GradientRule, Loss, LossFunction
from learner.optimizer import Optimizer
from networks import Trace


class ReferRule(GradientRule):
  """Changes the losses of rows before another rule takes their step (Novati & Koumoutsakos, 2019, Section 3).

  Rule 1: a step whose importance weight lies outside (1 / c_max, c_max) has no loss, be it a critic's or a policy's. Rule 2
  (Eq. 10): the loss of a network that is or holds the policy is beta L + (1 - beta) KL(mu || pi); a critic's own has no beta
  (Algorithm 4).
  """

  def __init__(self, config: RunConfig, inner: GradientRule):
    """Takes the rule that takes the steps."""
    super().__init__(config)
    self._inner = inner
    self._refer = config.learner.refer

  @classmethod
  def is_asked_for(cls, config: LearnerConfig) -> bool:
    """Whether a rule is on."""
    return config.refer.rejects or config.refer.penalizes

  def controls(self, updates: int) -> Mapping[str, float]:
    """The inner rule's; those of ReF-ER come from the source, which knows the memory."""
    return self._inner.controls(updates)

  def classify(self, batch: Batch, log_ratio: tf.Tensor) -> Batch:
    """Marks the near-policy rows; all are near without Rule 1."""
    if not self._refer.rejects:
      return batch
    is_near = tf.abs(log_ratio) < tf.math.log(batch.controls[LARGEST_RATIO])
    return dataclasses.replace(batch, near=tf.stop_gradient(tf.cast(is_near, tf.float32)))

  def minimise(
    self,
    optimizer: Optimizer,
    loss: LossFunction,
    batch: Batch,
    penalty: Callable[[], tf.Tensor] | None = None,
  ) -> Loss:
    """Takes one step; see `GradientRule.minimise`."""

    def ruled(trace: Trace | None) -> Loss:
      result = loss(trace)
      rows = result.rows
      if batch.near is not None:
        # Not a product alone: the loss of a far-policy row may be infinite.
        rows = tf.where(batch.near > 0, rows, tf.zeros_like(rows))
      if self._refer.penalizes and result.divergence is not None:
        beta = batch.controls[BETA]
        rows = beta * rows + (1.0 - beta) * result.divergence
      return result._replace(rows=rows)

    return self._inner.minimise(optimizer, ruled, batch, penalty)

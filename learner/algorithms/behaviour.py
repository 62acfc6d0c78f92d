"""How a policy compares with the behaviour that a step's action came from, both diagonal Gaussians (ReF-ER, Sections 2 and 3)."""

from collections.abc import Mapping

import tensorflow as tf

from configs import RunConfig
from learner.gradients.controls import DIVERGENCE, LOG_RATIO

# The field of rows that hold their behaviour.
BEHAVIOUR = "behaviour"


def compare(
  behaviour: tf.Tensor, actions: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """The log importance weight of each action, and the divergence of the policy from the behaviour in each state.

  Actions are drawn within three deviations of the mean (Appendix A). That divides both densities by the same number, which
  cancels out in their ratio. An action beyond the policy's own three deviations has the ratio of whole Gaussians.

  Args:
    behaviour: float32 [B, 2 A], mean and standard deviation of mu.
    actions: float32 [B, A].
    mean: float32 [B, A], of pi.
    deviation: float32 [B, A], [A] or (), of pi.

  Returns:
    (log pi(a|s) - log mu(a|s), KL(mu || pi) in nats), float32 [B] each; gradients pass through pi.
  """
  mu_mean, mu_deviation = tf.split(behaviour, 2, axis=-1)
  log_scale = tf.math.log(deviation) - tf.math.log(mu_deviation)
  of_policy, of_behaviour = (actions - mean) / deviation, (actions - mu_mean) / mu_deviation
  log_ratio = 0.5 * (tf.square(of_behaviour) - tf.square(of_policy)) - log_scale
  spread = tf.square(mu_deviation / deviation) + tf.square((mean - mu_mean) / deviation)
  divergence = log_scale + 0.5 * (spread - 1.0)
  return tf.reduce_sum(log_ratio, axis=-1), tf.reduce_sum(divergence, axis=-1)


class NoisyPolicy:
  """pi = N(mean, sigma^2 I) of an algorithm whose workers add noise to the actions of a network (ReF-ER, Section 2).

  It compares nothing in a run whose rows do not hold their behaviour.

  Attributes:
    outputs: names of what `compare` returns.
  """

  def __init__(self, config: RunConfig):
    """Takes the algorithm's `action_noise`, which is sigma."""
    self.outputs: tuple[str, ...] = (LOG_RATIO, DIVERGENCE) if config.learner.stores_behaviour else ()
    self._deviation: float = getattr(config.learner.algorithm, "action_noise", 0.0)

  def compare(self, fields: Mapping[str, tf.Tensor], mean: tf.Tensor) -> dict[str, tf.Tensor]:
    """The log importance weight and the divergence of rows, float32 [B] each; empty where nothing is compared.

    Args:
      fields: of the rows.
      mean: float32 [B, A], the network's actions for them; gradients pass through it.
    """
    if not self.outputs:
      return {}
    log_ratio, divergence = compare(fields[BEHAVIOUR], fields["action"], mean, tf.constant(self._deviation))
    return {LOG_RATIO: log_ratio, DIVERGENCE: divergence}
